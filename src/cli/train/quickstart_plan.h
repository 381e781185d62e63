#pragma once

#include "cli/program/command.h"

#include <cstdint>
#include <filesystem>

namespace cairn::cli {

/// The commands of the quick start, and the folder for all their files.
struct QuickstartPlan {
  std::filesystem::path folder;
  int ranks = 2;
  std::int64_t iterations = 0;
  std::int64_t save_interval = 0;

  static constexpr std::int64_t sequence = 128;
  static constexpr std::int64_t batch = 16;
  static constexpr std::uint64_t seed = 1234;

  std::filesystem::path stories() const { return folder / "stories.jsonl"; }
  std::filesystem::path tokenizer() const {
    return folder / "tokenizer" / "tokenizer.json";
  }
  std::filesystem::path checkpoints() const { return folder / "checkpoints"; }
  std::filesystem::path metrics() const { return folder / "metrics.jsonl"; }
  std::filesystem::path told() const { return folder / "told.jsonl"; }
  std::filesystem::path log() const { return folder / "training.log"; }

  Arguments make_stories() const;
  Arguments train_tokenizer() const;
  Arguments preprocess() const;
  /// A training of `trial` iterations without evaluation, to measure their
  /// speed.
  Arguments try_out(std::int64_t trial) const;
  Arguments train() const;
  Arguments tell_stories() const;

 private:
  Arguments pretrain(std::int64_t length) const;
};

} // namespace cairn::cli
