#pragma once

#include "kernels/internal/in_parallel.h"

#include <cairn/kernels/stretch.h>
#include <cairn/optim/rule.h>

#include <algorithm>
#include <cstdint>

namespace cairn::zero {

/// Calls body(part, offset) on parts that together are all of a stretch: on
/// every thread for the CPU, on the whole stretch at once for a GPU.
template <typename Body>
void over_threads(
    const kernels::Stretch& stretch,
    optim::Place place,
    const Body& body) {
  if (place.cuda) {
    body(stretch, std::int64_t{0});
    return;
  }
  constexpr std::int64_t block = 1 << 15; // a few pages of each array
  kernels::in_parallel(
      (stretch.count + block - 1) / block,
      [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t first = begin * block;
        const std::int64_t last = std::min(end * block, stretch.count);
        body(kernels::part_of(stretch, first, last - first), first);
      });
}

} // namespace cairn::zero
