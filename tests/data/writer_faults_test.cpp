#include "data/golden_indexed.h"
#include "data/internal/preprocess.h"
#include "data/samples/index_cache.h"
#include "support/faulty_files.h"
#include "support/names_in.h"
#include "support/temporary_folder.h"

#include <cairn/base/log.h>
#include <cairn/data/indexed_dataset.h>
#include <cairn/text/tokenizer.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

// Every system call that changes a file fails once, in turn, while token files
// and index caches are written.

namespace cairn::data::writer_faults_test {
namespace {

namespace fs = std::filesystem;
using cairn::testing::FaultOutcome;
using cairn::testing::names_in;
using cairn::testing::TemporaryFolder;
using cairn::testing::with_every_fault;
using fixtures::all_documents;
using fixtures::Documents;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Logger quiet() {
  return Logger({.least = LogLevel::error});
}

class PreprocessFaults : public ::testing::Test {
 protected:
  PreprocessFaults() { fs::create_directory(out_); }

  /// Writes the token files of a few documents that hold `word`.
  void write(const std::string& word) const {
    std::string lines;
    for (int i = 0; i < 3; ++i) {
      lines += R"({"text": ")" + word + R"("})" + "\n";
    }
    PreprocessOptions options{
        .inputs = {folder_.write("in.jsonl", lines)},
        .output_prefix = out_ / "gpt",
        .tokenizer = tokenizer_,
        .existing = Existing::replace};
    preprocess(options, quiet(), [](const PreprocessReport&) {});
  }
  Documents written() const {
    return all_documents(IndexedDataset(out_ / "gpt_text_document"));
  }
  bool is_there() const { return fs::exists(out_ / "gpt_text_document.idx"); }
  void clear() const {
    fs::remove_all(out_);
    fs::create_directory(out_);
  }
  void check_remains(const FaultOutcome& outcome) const {
    if (outcome.error) {
      EXPECT_THAT(*outcome.error, HasSubstr(out_.string()));
    }
    if (!outcome.killed && outcome.call.find("unlink") == std::string::npos) {
      EXPECT_THAT(names_in(out_), Not(Contains(HasSubstr("partial"))));
    }
  }

  TemporaryFolder folder_;
  fs::path out_ = folder_.path() / "out";
  std::shared_ptr<const text::Tokenizer> tokenizer_ = text::load_tokenizer(
      {.type = "GPT2BPETokenizer",
       .vocab_file = CAIRN_GOLDEN_DIR "/tokenizers/gpt2/vocab.json",
       .merge_file = CAIRN_GOLDEN_DIR "/tokenizers/gpt2/merges.txt"});
};

TEST_F(PreprocessFaults, LeaveAWholeDatasetOrNone) {
  write("new");
  const Documents wanted = written();
  with_every_fault(
      out_,
      [&] { clear(); },
      [&] { write("new"); },
      [&](const FaultOutcome& outcome) {
        if (is_there()) {
          EXPECT_EQ(written(), wanted);
        } else {
          EXPECT_TRUE(outcome.error || outcome.killed);
        }
        check_remains(outcome);
        write("new"); // what is left is in nobody's way
        EXPECT_EQ(written(), wanted);
      });
}

TEST_F(PreprocessFaults, LeaveTheOldDatasetTheNewOneOrNone) {
  write("old");
  const Documents old = written();
  write("new one");
  const Documents wanted = written();
  with_every_fault(
      out_,
      [&] {
        clear();
        write("old");
      },
      [&] { write("new one"); },
      [&](const FaultOutcome& outcome) {
        const bool failed = outcome.error || outcome.killed;
        if (is_there()) {
          const Documents found = written();
          EXPECT_TRUE(found == wanted || (failed && found == old));
        } else {
          EXPECT_TRUE(failed);
        }
        check_remains(outcome);
      });
}

TEST(IndexCacheFaults, CostTheFileAlone) {
  const TemporaryFolder folder;
  const fs::path cache = folder.path() / "cache";
  const IndexCache::Key key{
      .class_name = "Small",
      .description = R"({"class": "Small"})",
      .arrays = {"one", "two"}};
  const auto get = [&] {
    return IndexCache(cache, quiet())
        .get(
            key,
            [](const IndexCache::Arrays&) { return std::string(); },
            [] {
              return IndexCache::Arrays{
                  IndexArray::of(std::vector<std::int64_t>{1, 2, 3}),
                  IndexArray::of(std::vector<std::int64_t>{4, 5})};
            });
  };
  const auto is_right = [](const IndexCache::Result& result) {
    return result.arrays.size() == 2 && result.arrays[0][2] == 3 &&
        result.arrays[1][1] == 5;
  };
  with_every_fault(
      folder.path(),
      [&] { fs::remove_all(cache); },
      [&] { EXPECT_TRUE(is_right(get())); },
      [&](const FaultOutcome& outcome) {
        EXPECT_FALSE(outcome.error) << "training needs no file";
        EXPECT_TRUE(is_right(get()));
        const IndexCache::Result again = get();
        EXPECT_TRUE(is_right(again));
        EXPECT_EQ(again.origin, IndexOrigin::file);
      });
}

} // namespace
} // namespace cairn::data::writer_faults_test
