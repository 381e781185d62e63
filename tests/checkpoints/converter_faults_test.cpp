#include "checkpoints/internal/portable_checkpoint.h"
#include "same_tensors.h"
#include "support/faulty_files.h"
#include "support/golden_tensors.h"
#include "support/temporary_folder.h"

#include <cairn/checkpoints/convert.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

// Every system call that changes a file fails once, in turn, while a checkpoint
// is converted.

namespace cairn::checkpoints::converter_faults_test {
namespace {

namespace fs = std::filesystem;
using cairn::testing::FaultOutcome;
using cairn::testing::TemporaryFolder;
using Format = CheckpointFormat;

class ConverterFaults : public ::testing::TestWithParam<Format> {};

TEST_P(ConverterFaults, LeaveAWholeCheckpointOrNone) {
  const fs::path model = fs::path(CAIRN_GOLDEN_DIR) / "models/llama";
  const auto parameters = [](const fs::path& place) {
    return loaded(read_portable(
                      detect_checkpoint_format(place),
                      {.input = place, .output = {}})
                      .parameters);
  };
  const TemporaryFolder folder;
  const fs::path output = folder / "out";
  const auto write = [&] {
    convert({.input = model, .output = output, .to = GetParam()});
  };
  write();
  const std::map<std::string, at::Tensor> wanted = parameters(output);
  cairn::testing::with_every_fault(
      folder.path(),
      [&] {
        for (const auto& entry : fs::directory_iterator(folder.path())) {
          fs::remove_all(entry.path());
        }
      },
      write,
      [&](const FaultOutcome& outcome) {
        if (fs::exists(output)) {
          expect_same(parameters(output), wanted);
        } else {
          EXPECT_TRUE(outcome.error || outcome.killed);
        }
      });
}

INSTANTIATE_TEST_SUITE_P(
    Of,
    ConverterFaults,
    ::testing::Values(
        Format::native,
        Format::huggingface,
        Format::megatron,
        Format::deepspeed),
    [](const auto& info) { return std::string(name_of(info.param)); });

} // namespace
} // namespace cairn::checkpoints::converter_faults_test
