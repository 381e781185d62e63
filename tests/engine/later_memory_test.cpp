#include "engine/later_memory.h"
#include "nn/counting_allocator.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <vector>

// A model that is built without memory never needs more than its states, as
// the stage shares them out, and a few buckets: at the start, in training and
// while it is saved.

namespace cairn::later_memory_test {
namespace {

using later_memory::Case;

void check_on_cpus(
    int ranks,
    const testing::TemporaryFolder& folder,
    const std::vector<Case>& cases) {
  testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
    for (const Case& row : cases) {
      testing::CountingAllocator counter;
      later_memory::check(
          world,
          folder.path(),
          row,
          {.peak = [&] { return static_cast<double>(counter.peak()); },
           .reset = [&] { counter.reset_peak(); }});
    }
  });
}

TEST(LaterMemory, NoRankHoldsTheWholeModel) {
  const testing::TemporaryFolder folder;
  std::vector<Case> cases;
  for (const int stage : {1, 2, 3}) {
    cases.push_back({.stage = stage});
    cases.push_back({.stage = stage, .optimizer = "cpu"});
    cases.push_back({.stage = stage, .optimizer = "nvme"});
  }
  cases.push_back({.stage = 3, .optimizer = "cpu", .parameters = "cpu"});
  cases.push_back({.stage = 3, .optimizer = "nvme", .parameters = "nvme"});
  check_on_cpus(2, folder, cases);
  check_on_cpus(
      4,
      folder,
      {{.stage = 3}, {.stage = 3, .optimizer = "nvme", .parameters = "nvme"}});
}

TEST(LaterMemory, NoRankHoldsAllExperts) {
  const testing::TemporaryFolder folder;
  check_on_cpus(
      4,
      folder,
      {{.stage = 1, .expert_ranks = 2},
       {.stage = 2, .optimizer = "cpu", .expert_ranks = 4},
       {.stage = 3, .expert_ranks = 2}});
}

TEST(LaterMemory, NoRankReadsAForeignCheckpointWhole) {
  const testing::TemporaryFolder folder;
  const Case row{.stage = 3, .foreign = folder / "foreign"};
  testing::run_ranks({.ranks = 1}, [&](const distributed::World&) {
    later_memory::write_foreign(row);
  });
  Case on_disk = row;
  on_disk.optimizer = on_disk.parameters = "nvme";
  Case of_weights = row;
  of_weights.stage = 1;
  check_on_cpus(2, folder, {row, on_disk, of_weights});
}

} // namespace
} // namespace cairn::later_memory_test
