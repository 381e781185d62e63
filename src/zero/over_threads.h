#pragma once

#include <ATen/Parallel.h>
#include <cairn/kernels/stretch.h>
#include <cairn/optim/rule.h>

#include <cstdint>

namespace cairn::zero {

/// Calls body(part, offset) on parts of a stretch that together are all of it:
/// on every thread for the CPU, at once for a GPU.
template <typename Body>
void over_threads(
    const kernels::Stretch& stretch,
    optim::Place place,
    const Body& body) {
  if (place.cuda) {
    body(stretch, std::int64_t{0});
    return;
  }
  constexpr std::int64_t grain = 1 << 15; // a few pages of each array
  at::parallel_for(
      0,
      stretch.count,
      grain,
      [&](std::int64_t begin, std::int64_t end) {
        body(kernels::part_of(stretch, begin, end - begin), begin);
      });
}

} // namespace cairn::zero
