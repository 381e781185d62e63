#pragma once

#include <ATen/core/ivalue.h>
#include <cairn/distributed/process_group.h>
#include <torch/csrc/autograd/custom_function.h>

namespace cairn::nn {

/// Holds a process group in a form that autograd's contexts can keep.
struct GroupCapsule : torch::CustomClassHolder {
  explicit GroupCapsule(distributed::ProcessGroup kept)
      : group(std::move(kept)) {}
  distributed::ProcessGroup group;
};

inline void keep_group(
    torch::autograd::AutogradContext& context,
    const distributed::ProcessGroup& group) {
  context.saved_data["group"] =
      c10::IValue::make_capsule(c10::make_intrusive<GroupCapsule>(group));
}

inline const distributed::ProcessGroup& kept_group(
    const torch::autograd::AutogradContext& context) {
  const auto capsule = context.saved_data.at("group").toCapsule();
  return static_cast<const GroupCapsule&>(*capsule).group;
}

} // namespace cairn::nn
