#pragma once

#include "nn/internal/deferred_gradients.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>

namespace cairn::nn {

/// Holds DeferredGradients in a form that autograd's contexts can keep.
struct DeferralCapsule : torch::CustomClassHolder {
  explicit DeferralCapsule(std::shared_ptr<DeferredGradients> kept)
      : later(std::move(kept)) {}
  std::shared_ptr<DeferredGradients> later;
};

/// Keeps, in forward, where gradients are put off to.
inline void keep_deferral(torch::autograd::AutogradContext& context) {
  if (const auto& later = DeferWeightGradients::current()) {
    context.saved_data["later"] =
        c10::IValue::make_capsule(c10::make_intrusive<DeferralCapsule>(later));
  }
}

/// The deferral that keep_deferral() kept, in backward; null: nothing is put
/// off.
inline std::shared_ptr<DeferredGradients> kept_deferral(
    const torch::autograd::AutogradContext& context) {
  const auto found = context.saved_data.find("later");
  return found == context.saved_data.end()
      ? nullptr
      : static_cast<const DeferralCapsule&>(*found->second.toCapsule()).later;
}

} // namespace cairn::nn
