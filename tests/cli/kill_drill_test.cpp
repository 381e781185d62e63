#include "support/command.h"
#include "support/temporary_folder.h"

#include <cairn/base/file.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

// Ranks of a training are killed at random moments, between and within steps
// and saves; the launcher starts the job again, which goes on from its newest
// checkpoint. In the end the weights are those of a run that nobody disturbed.
//
// Ten kills; CAIRN_DRILL_KILLS sets another number (tools/kill_drill.sh).

namespace cairn::kill_drill_test {
namespace {

using testing::Command;
using testing::TemporaryFolder;
using testing::Words;

constexpr int steps = 150;

int kills_wanted() {
  const char* const number = std::getenv("CAIRN_DRILL_KILLS");
  return number == nullptr ? 10 : std::atoi(number);
}

Words launch(const TemporaryFolder& folder, int restarts) {
  return {
      CAIRN_BINARY_DIR "/bin/cairn",
      "launch",
      "--num_gpus",
      "2",
      "--max-restarts",
      std::to_string(restarts),
      "--restart-delay",
      "0",
      DRILL_TRAINER,
      (folder / "checkpoints").string(),
      std::to_string(steps),
      (folder / "weights.safetensors").string()};
}

std::string weights(const TemporaryFolder& folder) {
  return read_file(folder / "weights.safetensors", 1 << 20);
}

/// The processes that train, not the launcher.
std::vector<pid_t> trainers(const Command& command) {
  std::vector<pid_t> found;
  for (const pid_t pid : command.living()) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string name;
    std::getline(file, name);
    if (name == std::string("drill_trainer")) {
      found.push_back(pid);
    }
  }
  return found;
}

TEST(KillDrill, EndsWithTheWeightsOfTheUndisturbedRun) {
  const TemporaryFolder undisturbed;
  ASSERT_EQ(Command(launch(undisturbed, 0)).finish().code, 0);
  const std::string wanted = weights(undisturbed);

  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int kills = 0;
  int rounds = 0;
  while (kills < kills_wanted()) {
    ++rounds;
    const TemporaryFolder folder;
    Command command(launch(folder, kills_wanted()));
    while (kills < kills_wanted() && !command.living().empty() &&
           !std::filesystem::exists(folder / "weights.safetensors")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 900));
      const auto victims = trainers(command);
      if (!victims.empty() &&
          ::kill(victims[random() % victims.size()], SIGKILL) == 0) {
        ++kills;
      }
    }
    const testing::Result result = command.finish();
    ASSERT_EQ(result.code, 0) << result.err;
    ASSERT_TRUE(weights(folder) == wanted) << "after " << kills << " kills";
  }
  RecordProperty("rounds", rounds);
}

} // namespace
} // namespace cairn::kill_drill_test
