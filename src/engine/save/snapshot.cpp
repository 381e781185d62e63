#include "engine/save/snapshot.h"

#include "zero/internal/host_memory.h"

#include <cairn/base/error.h>

namespace cairn::inline engine {

namespace {

constexpr std::int64_t alignment = 64;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

} // namespace

void Snapshot::clear(const checkpoints::SlicePlan& plan, bool pin) {
  slices_.clear();
  used_ = 0;
  std::int64_t wanted = 0;
  for (const auto& slice : plan.slices()) {
    wanted += aligned(
        (slice.stored.end - slice.stored.begin) *
        static_cast<std::int64_t>(c10::elementSize(slice.type)));
  }
  if (!memory_.defined() || memory_.numel() < wanted) {
    memory_.reset(); // first, so that both do not exist at once
    memory_ = zero::host_memory(wanted, at::kByte, pin);
  }
}

void Snapshot::put(const checkpoints::TensorSlice& slice) {
  const auto bytes = static_cast<std::int64_t>(slice.values.nbytes());
  const std::int64_t end = used_ + aligned(bytes);
  if (end > memory_.numel()) {
    throw InternalError({.what = "a snapshot larger than planned"});
  }
  checkpoints::TensorSlice copy = slice;
  copy.values =
      memory_.narrow(0, used_, bytes).view(slice.values.scalar_type());
  copy.values.copy_(slice.values);
  slices_.push_back(std::move(copy));
  used_ = end;
}

} // namespace cairn::engine
