#include "support/command.h"
#include "support/faulty_files.h"
#include "support/names_in.h"
#include "support/temporary_folder.h"
#include "text/internal/bpe_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

// Every system call that changes a file fails once, in turn, while a trained
// tokenizer is written.

namespace cairn::text::tokenizer_faults_test {
namespace {

namespace fs = std::filesystem;
using cairn::testing::FaultOutcome;
using cairn::testing::names_in;
using cairn::testing::read_text;
using cairn::testing::TemporaryFolder;
using ::testing::IsEmpty;

TEST(TokenizerFaults, LeaveAWholeTokenizerOrNone) {
  WordCounter words;
  words.add("a tokenizer that is as small as a tokenizer can be\n");
  const TrainedBpe trained = train_bpe(words, {.vocab_size = 270});
  const TemporaryFolder wanted;
  write_tokenizer(trained, wanted / "out");
  const TemporaryFolder folder;
  cairn::testing::with_every_fault(
      folder.path(),
      [&] {
        for (const std::string& name : names_in(folder.path())) {
          fs::remove_all(folder / name);
        }
      },
      [&] { write_tokenizer(trained, folder / "out"); },
      [&](const FaultOutcome& outcome) {
        if (fs::exists(folder / "out")) {
          for (const char* file :
               {"vocab.json", "merges.txt", "tokenizer.json"}) {
            EXPECT_EQ(
                read_text(folder / "out" / file),
                read_text(wanted / "out" / file));
          }
        } else {
          EXPECT_TRUE(outcome.error || outcome.killed);
          if (!outcome.killed) {
            EXPECT_THAT(names_in(folder.path()), IsEmpty());
          }
        }
      });
}

} // namespace
} // namespace cairn::text::tokenizer_faults_test
