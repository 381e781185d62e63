#include "engine/training_run.h"
#include "support/error_text.h"
#include "support/faulty_files.h"
#include "support/names_in.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/engine/initialize.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

// Faults of a checkpoint while others depend on it.

namespace cairn::checkpoint_faults_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using testing::Fault;
using testing::FaultyFiles;
using ::testing::HasSubstr;
using testing::names_in;
using testing::TrainingRun;

/// Starts a run that logs its work.
TrainingRun start_logged(
    const distributed::World& world,
    const json& more = json::object()) {
  return testing::start_run(world, 2, more, LogLevel::info);
}

at::Tensor head_weight(TrainingRun& run) {
  return run.engine().full_parameter("head.weight");
}

/// Every call that changes a file fails once, in turn, on either rank: the
/// earlier checkpoint stays, and the new one is whole or absent.
TEST(CheckpointFaults, HarmNothingThatWasSaved) {
  for (const int bad_rank : {0, 1}) {
    testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
      TrainingRun run =
          start_logged(world, {{"checkpoint", {{"keep_last", 5}}}});
      TrainingRun other = start_logged(world);
      run.step();
      const at::Tensor before = head_weight(run);
      std::size_t calls = 0;
      for (std::size_t at = 0; at <= calls; ++at) {
        for (const auto kind :
             {Fault::Kind::fails,
              Fault::Kind::short_write,
              Fault::Kind::stays_full}) {
          SCOPED_TRACE(::testing::Message() << "call " << at);
          // All ranks of the test use one folder, which one of them makes.
          std::unique_ptr<testing::TemporaryFolder> made;
          std::string path;
          if (world.rank() == 0) {
            made = std::make_unique<testing::TemporaryFolder>();
            path = made->path().string();
          }
          at::Tensor bytes = at::zeros({200}, at::kByte);
          std::copy(
              path.begin(),
              path.end(),
              static_cast<char*>(bytes.data_ptr()));
          world.group().broadcast(bytes, 0).wait();
          const fs::path folder = static_cast<const char*>(bytes.data_ptr());

          run.engine().save_checkpoint(folder, "old", {}, {.wait = true});
          run.step();
          std::string problem;
          at::Tensor count = at::zeros({1}, at::kLong);
          {
            FaultyFiles faulty(
                folder,
                {.at = world.rank() == bad_rank ? at : 0,
                 .kind = kind,
                 .error = kind == Fault::Kind::stays_full ? ENOSPC : EIO});
            try {
              run.engine().save_checkpoint(folder, "new", {}, {.wait = true});
            } catch (const CheckpointError& error) {
              problem = error.what();
            }
            if (world.rank() == bad_rank) {
              count[0] = static_cast<std::int64_t>(faulty.calls().size());
            }
          }
          const at::Tensor after = head_weight(run);
          const auto [found, client] = other.engine().load_checkpoint(folder);
          ASSERT_TRUE(found.has_value());
          const bool is_new = found->filename() == "new";
          EXPECT_TRUE(at::equal(head_weight(other), is_new ? after : before));
          if (problem.empty()) {
            EXPECT_TRUE(is_new);
          }
          other.engine().load_checkpoint(folder, "old");
          EXPECT_TRUE(at::equal(head_weight(other), before));
          if (!problem.empty() && world.rank() == 0) {
            EXPECT_THAT(
                names_in(folder),
                AnyOf(
                    ElementsAre(".lock", "latest", "old"),
                    ElementsAre(".lock", "latest", "new", "old")));
          }
          if (fs::exists(folder / "new")) { // it may lack its mention in latest
            other.engine().load_checkpoint(folder, "new");
            EXPECT_TRUE(at::equal(head_weight(other), after));
          }
          // The next save works again.
          run.engine().save_checkpoint(folder, "next", {}, {.wait = true});
          run.engine().load_checkpoint(folder, "old");
          world.group().all_reduce(count).wait();
          calls = std::max(
              calls,
              static_cast<std::size_t>(count.item<std::int64_t>()));
          world.group().barrier();
        }
      }
      EXPECT_GT(calls, 3);
    });
  }
}

TEST(CheckpointFaults, TrainingGoesOnWhenTheDiskIsFull) {
  const testing::TemporaryFolder folder;
  const auto outcomes =
      testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
        TrainingRun run = start_logged(world);
        run.step();
        run.engine().save_checkpoint(folder.path());
        run.engine().finish_checkpoint();
        {
          FaultyFiles full(
              folder.path(),
              {.at = 1, .kind = Fault::Kind::stays_full, .error = ENOSPC});
          run.step();
          run.engine().save_checkpoint(folder.path());
          run.step();
          EXPECT_THAT(
              error_text<CheckpointError>(
                  [&] { run.engine().finish_checkpoint(); }),
              HasSubstr("No space left on device"));
        }
        run.engine().finish_checkpoint(); // it was told once
        TrainingRun other = start_logged(world);
        EXPECT_EQ(
            other.engine().load_checkpoint(folder.path()).first,
            folder / "global_step1");
      });
  EXPECT_THAT(
      outcomes[0].log,
      AllOf(
          HasSubstr("global_step2 was not saved, training goes on"),
          HasSubstr("No space left on device")));
}

TEST(CheckpointFaults, DamagedOnesAreNamedAndTheNewestWholeOneIsLoaded) {
  const testing::TemporaryFolder folder;
  const auto outcomes =
      testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
        TrainingRun run = start_logged(world);
        for (int i = 0; i < 4; ++i) {
          run.step();
          run.engine()
              .save_checkpoint(folder.path(), std::nullopt, {}, {.wait = true});
        }
        const at::Tensor weight = head_weight(run);
        world.group().barrier();
        if (world.rank() == 0) {
          // Each checkpoint is damaged in another way: cut off, altered, a file
          // gone.
          fs::resize_file(folder / "global_step4/rank-00001.safetensors", 5000);
          const fs::path file = folder / "global_step3/rank-00001.safetensors";
          std::fstream stream(
              file,
              std::ios::in | std::ios::out | std::ios::binary);
          stream.seekp(static_cast<std::streamoff>(fs::file_size(file)) - 1);
          stream.put('!');
          stream.close();
          fs::remove(folder / "global_step2/rank-00000.safetensors");
        }
        world.group().barrier();
        EXPECT_EQ(
            run.engine().load_checkpoint(folder.path()).first,
            folder / "global_step1");
        EXPECT_EQ(run.engine().progress().global_steps, 1);
        for (int i = 0; i < 3; ++i) {
          run.step();
        }
        EXPECT_TRUE(at::equal(head_weight(run), weight));
        EXPECT_THAT(
            error_text<CheckpointError>([&] {
              run.engine().load_checkpoint(folder.path(), "global_step4");
            }),
            HasSubstr("rank-00001.safetensors: the file is cut off"));
      });
  EXPECT_THAT(
      outcomes[0].log,
      AllOf(
          HasSubstr("global_step4 cannot be loaded, trying the next older"),
          HasSubstr("rank-00001.safetensors: the file is cut off"),
          HasSubstr("global_step3 cannot be loaded"),
          HasSubstr("bytes were altered")));
}

TEST(CheckpointFaults, RanksThatDisagreeAreToldAtOnce) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    TrainingRun run = start_logged(world);
    run.step();
    const std::string tag = "from-" + std::to_string(world.rank());
    EXPECT_THAT(
        error_text<CheckpointError>(
            [&] { run.engine().save_checkpoint(folder.path(), tag); }),
        AllOf(
            HasSubstr("ranks save under different tags"),
            HasSubstr("rank 0 under \"from-0\", rank 1 under \"from-1\"")));
    EXPECT_FALSE(fs::exists(folder / ".lock")); // nothing was begun
    run.engine().save_checkpoint(folder.path(), "same");
  });
}

TEST(CheckpointFaults, ASaveOfOneRankAloneNamesTheOthers) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    TrainingRun run = start_logged(world);
    run.step();
    if (world.rank() == 0) {
      EXPECT_THAT(
          error_text<CommError>(
              [&] { run.engine().save_checkpoint(folder.path(), "a"); }),
          HasSubstr(
              "rank 1 did not come to save_checkpoint(\"a\"), but went on to"));
    }
    run.step(); // where rank 1 is already, and waits
  });
}

TEST(CheckpointFaults, TwoJobsDoNotShareAFolder) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    TrainingRun run = start_logged(world);
    run.engine().save_checkpoint(folder.path(), "a");
    run.engine().finish_checkpoint();
    TrainingRun other = start_logged(world);
    EXPECT_THAT(
        error_text<CheckpointError>(
            [&] { other.engine().save_checkpoint(folder.path(), "b"); }),
        HasSubstr("another job is writing to this folder"));
  });
}

TEST(CheckpointFaults, OldOnesAreDeleted) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    TrainingRun run = start_logged(
        world,
        {{"checkpoint", {{"keep_last", 2}, {"keep_every", 4}}}});
    for (int i = 0; i < 7; ++i) {
      run.step();
      run.engine().save_checkpoint(folder.path());
    }
    run.engine().finish_checkpoint();
    if (world.rank() != 0) {
      return; // it deletes nothing, and so does not wait for it
    }
    EXPECT_THAT(
        names_in(folder.path()),
        ElementsAre(
            ".lock",
            "global_step4",
            "global_step6",
            "global_step7",
            "latest"));
  });
}

} // namespace
} // namespace cairn::checkpoint_faults_test
