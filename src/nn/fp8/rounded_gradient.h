#pragma once

#include "nn/fp8/fp8_matrix.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <string>
#include <utility>

namespace cairn::nn {

/// The gradient of a layer's result in fp8, on its way from whoever computes it
/// to the layer. It does not travel through autograd's graph, because autograd
/// would cast it to the type of the result: a tensor without memory takes its
/// place there. Whoever makes it rounds it at once, so that it is never written
/// in 16 bits.
class RoundedGradient : public torch::CustomClassHolder {
 public:
  RoundedGradient(at::ScalarType type, Fp8Scale scale)
      : type_(type), scale_(std::move(scale)) {}

  at::ScalarType type() const { return type_; }
  const Fp8Scale& scale() const { return scale_; }

  void leave(Fp8Matrix gradient) { gradient_ = std::move(gradient); }

  /// What was left since the last call; nothing if autograd has the gradient.
  std::optional<Fp8Matrix> take() {
    return std::exchange(gradient_, std::nullopt);
  }

 private:
  at::ScalarType type_;
  Fp8Scale scale_;
  std::optional<Fp8Matrix> gradient_{};
};

using RoundedGradientPtr = c10::intrusive_ptr<RoundedGradient>;

/// Keeps it, in forward, for kept_rounded_gradient().
inline void keep_rounded_gradient(
    torch::autograd::AutogradContext& context,
    const RoundedGradientPtr& gradient) {
  if (gradient) {
    context.saved_data["rounded"] = c10::IValue::make_capsule(gradient);
  }
}

/// Null where none was kept.
inline RoundedGradient* kept_rounded_gradient(
    const torch::autograd::AutogradContext& context) {
  const auto found = context.saved_data.find("rounded");
  return found == context.saved_data.end()
      ? nullptr
      : &static_cast<RoundedGradient&>(*found->second.toCapsule());
}

} // namespace cairn::nn
