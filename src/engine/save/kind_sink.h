#pragma once

#include "engine/save/checkpoint_names.h"

#include <cairn/checkpoints/slices.h>

#include <functional>
#include <string>
#include <string_view>

namespace cairn::inline engine {

/// Passes slices of one kind on, without the kind in their names.
class KindSink final : public checkpoints::Sink {
 public:
  using Visit = std::function<void(const checkpoints::TensorSlice& slice)>;
  KindSink(std::string_view kind, const Visit& visit)
      : prefix_(name_of(kind, "")), visit_(visit) {}

  void put(const checkpoints::TensorSlice& slice) override {
    if (slice.name.starts_with(prefix_)) {
      checkpoints::TensorSlice named = slice;
      named.name.erase(0, prefix_.size());
      visit_(named);
    }
  }

 private:
  std::string prefix_;
  const Visit& visit_;
};

} // namespace cairn::engine
