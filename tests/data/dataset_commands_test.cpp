#include <cairn/data/indexed_dataset.h>
#include <cairn/data/indexed_writer.h>

#include "data/golden_indexed.h"
#include "support/command.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace cairn::data::dataset_commands_test {
namespace {

using cairn::testing::run;
using cairn::testing::TemporaryFolder;
using cairn::testing::Words;
using fixtures::all_documents;
using fixtures::golden_indexed;
using fixtures::slurp;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

cairn::testing::Result data(Words words) {
  words.insert(words.begin(), {CAIRN_BINARY_DIR "/bin/cairn", "data"});
  return run(words);
}

void copy_pair(
    const std::string& name,
    const TemporaryFolder& folder,
    const std::string& as) {
  for (const char* end : {".bin", ".idx"}) {
    std::filesystem::copy_file(
        golden_indexed(name + end),
        folder / (as + end),
        std::filesystem::copy_options::overwrite_existing);
  }
}

TEST(DataMerge, JoinsAsMegatronDoes) {
  // The two halves of --partitions 2, merged, equal Megatron's file.
  const TemporaryFolder folder;
  const TemporaryFolder out;
  const IndexedDataset whole(golden_indexed("mlm_gpt2_part_text_document"));
  const auto documents = all_documents(whole);
  ASSERT_EQ(documents.size(), 64U);
  for (int half = 0; half < 2; ++half) {
    IndexedWriter writer(
        folder / ("part_" + std::to_string(half)),
        {.type = whole.type()});
    for (std::size_t i = half * 32U; i < half * 32U + 32; ++i) {
      for (const auto& sequence : documents[i]) {
        writer.add_sequence(
            std::vector<std::int32_t>(sequence.begin(), sequence.end()));
      }
      writer.end_document();
    }
    writer.commit();
  }
  const auto result = data(
      {"merge",
       "--input",
       folder.path().string(),
       "--output-prefix",
       (out / "m").string()});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 datasets, 64 documents"));
  for (const char* end : {".bin", ".idx"}) {
    EXPECT_EQ(
        slurp(out / (std::string("m") + end)),
        slurp(
            golden_indexed(std::string("mlm_gpt2_part_text_document") + end)));
  }
}

TEST(DataMerge, KeepsTheOlderFormatAndTheOrderGiven) {
  const TemporaryFolder folder;
  const auto name = golden_indexed("old_int64").string();
  const auto prefix = (folder / "m").string();
  const Words
      words{"merge", "--input", name, name + ".bin", "--output-prefix", prefix};
  ASSERT_EQ(data(words).code, 0);
  const IndexedDataset merged(prefix);
  EXPECT_EQ(merged.format(), IndexFormat::classic);
  EXPECT_EQ(merged.type(), TokenType::int64);
  auto twice = all_documents(IndexedDataset(name));
  const auto once = twice;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(all_documents(merged), twice);

  const auto again = data(words);
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("exists already"));
}

TEST(DataMerge, RefusesWhatDoesNotFit) {
  const TemporaryFolder folder;
  const auto prefix = (folder / "m").string();
  const auto expect = [&](const Words& inputs, int code, const char* text) {
    Words words{"merge", "--output-prefix", prefix, "--input"};
    words.insert(words.end(), inputs.begin(), inputs.end());
    const auto result = data(words);
    EXPECT_EQ(result.code, code);
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_FALSE(std::filesystem::exists(prefix + ".bin"));
  };
  const auto name = [](const char* golden) {
    return golden_indexed(golden).string();
  };
  expect(
      {name("old_int64"), name("old_int32")},
      1,
      "different kinds cannot be");
  expect({name("old_int32"), name("old_mmap_int32")}, 1, "different kinds");
  expect({prefix}, 2, "into itself");
  expect({folder.path().string()}, 1, "holds no pair");
  folder.write("half.bin", "x");
  expect({folder.path().string()}, 1, "half.idx: half of a pair is missing");
}

TEST(DataMerge, TakesAPairThatHasAFolderOfItsName) {
  const TemporaryFolder folder;
  copy_pair("mlm_gpt2_eod_text_document", folder, "a");
  std::filesystem::create_directories(folder / "a" / "cache");
  const auto result = data(
      {"merge",
       "--input",
       (folder / "a").string(),
       "--output-prefix",
       (folder / "m").string()});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 datasets, 64 documents"));
}

TEST(DataVerify, FindsDamage) {
  const TemporaryFolder folder;
  copy_pair("mlm_gpt2_eod_text_document", folder, "d");
  const auto prefix = (folder / "d").string();
  const auto list = (folder / "list").string();
  const auto first = data({"verify", prefix, "--write", list});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(
      first.out,
      AllOf(
          HasSubstr("64 documents, 61 sequences, 2337 tokens of uint16"),
          HasSubstr("ids 1 to 50256"),
          HasSubstr("4674 bytes")));
  EXPECT_EQ(data({"verify", prefix + ".idx", "--against", list}).code, 0);
  EXPECT_EQ(data({"verify", prefix, "--vocab-size", "50257"}).code, 0);
  const auto small = data({"verify", prefix, "--vocab-size", "50256"});
  EXPECT_EQ(small.code, 1);
  EXPECT_THAT(small.out, HasSubstr("50256 is outside the vocabulary"));

  auto tokens = slurp(folder / "d.bin");
  tokens[100] = static_cast<char>(tokens[100] ^ 1);
  folder.write("d.bin", tokens);
  const auto changed = data({"verify", prefix, "--against", list});
  EXPECT_EQ(changed.code, 1);
  EXPECT_THAT(changed.out, HasSubstr("FAULT  d.bin: has changed"));
  EXPECT_THAT(changed.err, HasSubstr("1 fault found"));

  folder.write("d.bin", tokens.substr(2));
  const auto torn = data({"verify", prefix});
  EXPECT_EQ(torn.code, 1);
  EXPECT_THAT(torn.out, HasSubstr("lies outside the .bin file"));
  EXPECT_EQ(data({"verify", (folder / "none").string()}).code, 1);
  EXPECT_EQ(data({"verify"}).code, 2);

  folder.write("list", "nonsense\n");
  EXPECT_THAT(
      data({"verify", prefix, "--against", list}).err,
      HasSubstr("list:1: "));
}

TEST(DataInspect, ShowsWhatIsThere) {
  const auto prefix = golden_indexed("mlm_gpt2_eod_text_document").string();
  const std::string folder = CAIRN_GOLDEN_DIR "/tokenizers/gpt2/";
  const auto ids = data({"inspect", prefix + ".bin", "--documents", "2"});
  ASSERT_EQ(ids.code, 0) << ids.err;
  EXPECT_THAT(
      ids.out,
      AllOf(
          HasSubstr("mmap (MMIDIDX), uint16"),
          HasSubstr("documents  64 (3 empty)"),
          HasSubstr("tokens     2337"),
          HasSubstr("tokens per document: 0 to 151"),
          HasSubstr("█"),
          HasSubstr("document 1: 40 tokens\n    1639 460 779"),
          Not(HasSubstr("document 2"))));
  const auto text = data(
      {"inspect",
       prefix,
       "--tokenizer-type",
       "GPT2BPETokenizer",
       "--vocab-file",
       folder + "vocab.json",
       "--merge-file",
       folder + "merges.txt"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("    You can use"));
  const auto sentences =
      data({"inspect", golden_indexed("old_int32").string()});
  EXPECT_THAT(
      sentences.out,
      AllOf(
          HasSubstr("lazy or cached (TNTIDX), int32"),
          HasSubstr("tokens per sequence: 2 to 80"),
          HasSubstr("document 1: 35 tokens in 2 sequences")));
  EXPECT_EQ(data({"inspect", "none"}).code, 1);
  EXPECT_EQ(data({"inspect", prefix, "--documents", "-1"}).code, 2);
  const auto other = data(
      {"inspect",
       prefix,
       "--vocab-file",
       CAIRN_GOLDEN_DIR "/tokenizers/bert/vocab-cased-small.txt"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(
      other.err,
      AllOf(
          HasSubstr("text_document.bin: "),
          HasSubstr("was it made with another tokenizer?")));
  EXPECT_THAT(
      data({"inspect", prefix, "--vocab-file", "--merge-file", "x"}).err,
      HasSubstr("--vocab-file has no value (--merge-file follows)"));
  EXPECT_THAT(
      data({"inspect", "--help"}).out,
      HasSubstr("how many to show (3)"));
  const auto half =
      data({"inspect", prefix, "--merge-file", folder + "merges.txt"});
  EXPECT_EQ(half.code, 2);
  EXPECT_THAT(half.err, HasSubstr("needs --vocab-file"));
}

} // namespace
} // namespace cairn::data::dataset_commands_test
