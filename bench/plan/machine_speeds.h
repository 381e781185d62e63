#pragma once

#include <cairn/plan/cluster.h>

#include <cstdint>
#include <functional>

/// The sizes of a net that decide how fast its parts are.
struct NetSizes {
  std::int64_t batch = 1;
  std::int64_t sequence = 1;
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  std::int64_t vocabulary = 1;
};

/// Seconds that this process computes for a call, the median of some. What
/// other programs do meanwhile is not counted.
double computing_seconds(const std::function<void()>& call);

/// Seconds that this process has computed.
double computed_so_far();

/// Measures products, attention and element-wise operators at the sizes of a
/// net, in fp32 with one thread.
cairn::plan::MeasuredSpeeds measure_speeds(const NetSizes& net);
