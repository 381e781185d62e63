#pragma once

#include "support/run_ranks.h"

#include <ATen/TensorOptions.h>
#include <cairn/distributed/process_group.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

// The suite for every backend. Programs instantiate it with the backends that
// they can run: group_suite_on_cpu.cpp, group_suite_on_gpu.cpp.

namespace cairn::distributed::group_suite {

struct Setting {
  const char* backend;
  int ranks;
  bool shared_memory = false;
};

std::string name_of(const Setting& setting);

inline void PrintTo(const Setting& setting, std::ostream* out) {
  *out << name_of(setting);
}

class GroupSuite : public ::testing::TestWithParam<Setting> {
 protected:
  static void run(const std::function<void(const ProcessGroup&)>& body);

  /// True for NCCL, which runs all calls of a group one after the other on the
  /// GPU: wait() orders the stream and does not block, and a send lasts until
  /// the other rank receives.
  static bool on_stream();

  /// Options of tensors on the device of the group.
  static at::TensorOptions like(at::ScalarType dtype = at::kFloat);

  /// True once the call has ended. The host learns that of a GPU a little later
  /// than a stream does.
  static bool is_done(const Pending& pending);
};

} // namespace cairn::distributed::group_suite
