#pragma once

#include "pretrain/parity_row.h"
#include "pretrain/parity_training.h"
#include "support/temporary_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

// How far rows are from the curve they follow, for bench/gpu/nccl_table.py.

namespace cairn::pretrain::parity {

/// The largest differences between a run and the curve it follows.
struct Distance {
  double loss = 0;
  double norm = 0;

  void add(const Point& got, const Point& wanted) {
    const std::size_t losses =
        std::min(got.losses.size(), wanted.losses.size());
    for (std::size_t i = 0; i < losses; ++i) {
      loss = larger(loss, got.losses[i] - wanted.losses[i]);
    }
    norm = larger(norm, got.norm - wanted.norm);
  }

  /// NaN if one of the two is.
  static double larger(double known, double difference) {
    return std::isnan(known) || std::abs(difference) <= known
        ? known
        : std::abs(difference);
  }
};

/// The distances of all ranks of a job, each of which is a process of its own.
class DistanceOfRanks {
 public:
  /// Called by a rank at its end.
  void write(int rank, const Distance& distance) const {
    std::ofstream out(folder_ / std::to_string(rank));
    out << fmt::format("{} {}\n", distance.loss, distance.norm);
  }

  /// The largest of `ranks` ranks; NaN where one has written nothing.
  Distance largest(int ranks) const {
    Distance result;
    for (int rank = 0; rank < ranks; ++rank) {
      std::ifstream in(folder_ / std::to_string(rank));
      std::string loss = "nan";
      std::string norm = "nan";
      in >> loss >> norm;
      result.loss = Distance::larger(result.loss, std::stod(loss));
      result.norm = Distance::larger(result.norm, std::stod(norm));
    }
    return result;
  }

 private:
  testing::TemporaryFolder folder_;
};

/// The layout in words without spaces, separated by commas.
inline std::string layout_of(const Row& row) {
  std::vector<std::string> words{row.model};
  const std::pair<const char*, int> sizes[]{
      {"tensor", row.tensor},
      {"data", row.data},
      {"pipeline", row.pipeline},
      {"expert", row.expert},
      {"context", row.context}};
  for (const auto& [name, size] : sizes) {
    if (size > 1) {
      words.push_back(fmt::format("{}={}", name, size));
    }
  }
  if (row.context > 1) {
    words.push_back(fmt::format("context_kind={}", row.context_kind));
  }
  words.push_back(fmt::format("zero={}", row.stage));
  for (const auto& [key, value] : row.zero.items()) {
    words.push_back(fmt::format("{}={}", key, value.dump()));
  }
  if (row.pipeline > 1) {
    words.push_back(fmt::format("schedule={}", row.schedule));
  }
  if (row.sequence_parallel) {
    words.push_back("sequence_parallel");
  }
  if (row.recompute) {
    words.push_back("recompute");
  }
  words.insert(words.end(), row.flags.begin(), row.flags.end());
  return fmt::format("{}", fmt::join(words, ","));
}

/// Prints one line that a program can read.
inline void report(
    const char* suite,
    const std::string& row,
    const std::string& ranks,
    const std::string& layout,
    const Distance& distance) {
  fmt::print(
      "PARITY suite={} row={} ranks={} layout={} loss={:.1e} norm={:.1e}\n",
      suite,
      row,
      ranks,
      layout,
      distance.loss,
      distance.norm);
  std::fflush(stdout);
}

} // namespace cairn::pretrain::parity
