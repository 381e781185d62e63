#pragma once

#include "pretrain/parity_training.h"
#include "support/run_ranks.h"

#include <filesystem>
#include <functional>
#include <optional>

// Runs that are cut in two: one layout of ranks saves, another one resumes.

namespace cairn::pretrain::parity {

/// Trains the first half of the steps and saves.
inline void save_half_way(
    const Row& row,
    const testing::RanksOptions& options,
    const std::filesystem::path& folder) {
  testing::run_ranks(options, [&](const distributed::World& world) {
    Training training(row, world);
    for (int i = 0; i < steps / 2; ++i) {
      training.step();
    }
    training.engine->save_checkpoint(folder, std::nullopt, {}, {.wait = true});
  });
}

/// Loads what save_half_way() saved and trains the second half of the steps, as
/// one of the ranks. Calls `check` after each of them.
inline void resume_half_way(
    const Row& row,
    const distributed::World& world,
    const std::filesystem::path& folder,
    const std::function<void(const Point&, int step)>& check) {
  Training training(row, world);
  training.engine->load_checkpoint(folder);
  for (int i = steps / 2; i < steps; ++i) {
    check(training.step(), i);
  }
}

} // namespace cairn::pretrain::parity
