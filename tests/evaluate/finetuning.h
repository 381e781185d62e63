#pragma once

#include "evaluate/toy_task.h"

#include "evaluate/internal/finetune.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <cairn/base/log.h>
#include <cairn/config/config.h>

#include <string>
#include <utility>
#include <vector>

// Helpers for tests that fine-tune the tiny BERT of tests/golden.

namespace cairn::evaluate::toy {

inline const std::string bert = CAIRN_GOLDEN_DIR "/models/bert";

inline Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

inline FinetuneReport run(
    const Words& flags,
    const distributed::World& world,
    bool keep_last = false) {
  return finetune(
      {.config =
           config::Config::load({.flags = flags, .world_size = world.size()}),
       .keep_last_batch = keep_last},
      world,
      Logger({.least = LogLevel::error}));
}

/// Runs on real ranks, and gives rank 0's report to `check`.
template <typename Check>
void run_on(int ranks, const Words& flags, const Check& check) {
  testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
    const FinetuneReport report = run(flags, world);
    if (world.rank() == 0) {
      check(report);
    }
  });
}

} // namespace cairn::evaluate::toy
