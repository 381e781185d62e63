#pragma once

#include "engine/checkpoint_names.h"
#include "engine/parameter_share.h"

#include <cairn/checkpoint/slices.h>
#include <cairn/zero/layout.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace cairn::engine {

/// Hands parts of parameters to a sink, under their names; those that another
/// rank of the model speaks for, and padding, are left out.
struct PutSlice {
  const zero::Layout& layout;
  const std::vector<ParameterShare>& shares;
  int model_rank;
  checkpoints::Sink& sink;

  void operator()(
      const zero::Slice& slice,
      std::string_view kind,
      const at::Tensor& part) const {
    const ParameterShare& share = shares[slice.parameter];
    const std::int64_t begin = slice.in_parameter.begin;
    const std::int64_t size =
        std::min(slice.in_parameter.end, share.elements) - begin;
    if (share.holders.front() == model_rank && size > 0) {
      sink.put(
          {.name = name_of(kind, layout.parameters()[slice.parameter].name),
           .shape = share.whole,
           .box = share.box,
           .begin = begin,
           .values = part.narrow(0, 0, size)});
    }
  }
};

} // namespace cairn::engine
