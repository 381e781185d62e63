#pragma once

#include <cairn/base/error.h>
#include <cairn/io/io_queue.h>

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace cairn::io {

/// Options with small blocks and depths, so that small tests meet every
/// boundary.
struct Setup {
  std::string name;
  EngineKind kind;
  config::AioConfig config;
};

inline void PrintTo(const Setup& setup, std::ostream* out) {
  *out << setup.name;
}

inline const Setup setups[] = {
    {"uring", EngineKind::uring, {.block_size = 16384, .queue_depth = 4}},
    {"uring_one_by_one",
     EngineKind::uring,
     {.block_size = 16384, .queue_depth = 4, .single_submit = true}},
    {"uring_without_overlap",
     EngineKind::uring,
     {.block_size = 16384, .queue_depth = 3, .overlap_events = false}},
    {"uring_three_rings",
     EngineKind::uring,
     {.block_size = 4096, .queue_depth = 2, .intra_op_parallelism = 3}},
    {"uring_depth_one",
     EngineKind::uring,
     {.block_size = 4096,
      .queue_depth = 1,
      .single_submit = true,
      .overlap_events = false}},
    {"threads", EngineKind::threads, {.block_size = 16384, .queue_depth = 4}},
    {"one_thread", EngineKind::threads, {.block_size = 4096, .queue_depth = 1}},
};

/// Runs a suite over all setups; says so where the kernel refuses one.
class EverySetup : public ::testing::TestWithParam<Setup> {
 protected:
  void SetUp() override {
    if (GetParam().kind == EngineKind::uring) {
      const IoQueue any;
      if (any.engine() != EngineKind::uring) {
        GTEST_SKIP() << "the kernel refuses io_uring: " << any.why_not_uring();
      }
    }
  }
};

inline std::string setup_name(
    const ::testing::TestParamInfo<Setup>& information) {
  return information.param.name;
}

} // namespace cairn::io
