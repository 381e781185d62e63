#include "pretrain/parity_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

// What the rows of the parity table that are run over NCCL have to contain.

namespace cairn::pretrain::parity_over_nccl_test {
namespace {

using parity::Row;

/// A way to share the work between ranks.
struct Way {
  std::string name;
  std::function<bool(const Row&, int ranks)> is_taken;
};

bool is_pure(const Row& row, int ranks, int size) {
  return row.ranks() == ranks && size == ranks && row.model == "gpt";
}

bool has_flag(const Row& row, const std::string& flag) {
  return std::ranges::find(row.flags, flag) != row.flags.end();
}

/// Ways that have to be there with 2 ranks and with 4.
std::vector<Way> ways() {
  std::vector<Way> result{
      {"tensor",
       [](const Row& row, int ranks) {
         return is_pure(row, ranks, row.tensor) && !row.sequence_parallel;
       }},
      {"sequence",
       [](const Row& row, int ranks) {
         return is_pure(row, ranks, row.tensor) && row.sequence_parallel &&
             row.flags.empty();
       }},
      {"tokens beside products",
       [](const Row& row, int ranks) {
         return row.tensor == ranks && has_flag(row, "--tp-comm-overlap");
       }},
      {"experts",
       [](const Row& row, int ranks) {
         return row.expert == ranks && row.ranks() == ranks && row.context == 1;
       }},
      {"experts and shared sequences",
       [](const Row& row, int ranks) {
         return row.expert == ranks && row.ranks() == ranks && row.context > 1;
       }},
      {"registered buffers", [](const Row& row, int ranks) {
         return row.ranks() == ranks && has_flag(row, "--use-nccl-ub");
       }}};
  for (int stage = 0; stage <= 3; ++stage) {
    result.push_back(
        {fmt::format("ZeRO {}", stage), [stage](const Row& row, int ranks) {
           return is_pure(row, ranks, row.data) && row.stage == stage &&
               row.zero.empty() && row.flags.empty();
         }});
  }
  for (const char* schedule : {"1f1b", "gpipe", "interleaved", "zb-h1"}) {
    result.push_back({schedule, [schedule](const Row& row, int ranks) {
                        return row.pipeline == ranks && row.ranks() == ranks &&
                            row.schedule == schedule;
                      }});
  }
  for (const char* kind : {"p2p", "a2a"}) {
    result.push_back({kind, [kind](const Row& row, int ranks) {
                        return is_pure(row, ranks, row.context) &&
                            row.context_kind == kind;
                      }});
    result.push_back(
        {fmt::format("documents, {}", kind), [kind](const Row& row, int ranks) {
           return row.context > 1 && row.ranks() == ranks &&
               row.context_kind == kind && row.model == "gpt_documents";
         }});
  }
  return result;
}

/// True when a row divides the ranks that share the parameters into groups of
/// more than one rank, of which there are several.
bool has_groups(const Row& row, const char* key) {
  const int size = row.zero.value(key, 0);
  const int sharing = row.data * row.context;
  return row.stage == 3 && size > 1 && size < sharing && sharing % size == 0;
}

TEST(ParityOverNccl, HasEveryWayToShareTheWork) {
  const std::vector<Row> rows = parity::rows_over_nccl();
  for (const Way& way : ways()) {
    for (const int ranks : {2, 4}) {
      EXPECT_TRUE(std::ranges::any_of(
          rows,
          [&](const Row& row) { return way.is_taken(row, ranks); }))
          << way.name << " on " << ranks << " ranks";
    }
  }
  for (const char* key : {"zero_hpz_partition_size", "mics_shard_size"}) {
    EXPECT_TRUE(std::ranges::any_of(rows, [&](const Row& row) {
      return has_groups(row, key);
    })) << key;
  }
  for (const char* model : {"_dropout", "_rotary"}) {
    EXPECT_TRUE(std::ranges::any_of(rows, [&](const Row& row) {
      return row.context > 1 && row.context_kind == "p2p" &&
          row.model.find(model) != std::string::npos;
    })) << model;
  }
  EXPECT_TRUE(std::ranges::any_of(rows, [](const Row& row) {
    return row.model == "gpt_few_keys" && row.tensor == 4;
  }));
}

TEST(ParityOverNccl, RunsNoRowTwice) {
  std::vector<std::string> names;
  for (const Row& row : parity::rows_over_nccl()) {
    names.push_back(row.name);
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

} // namespace
} // namespace cairn::pretrain::parity_over_nccl_test
