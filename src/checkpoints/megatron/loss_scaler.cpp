#include "checkpoints/megatron/optimizer_contents.h"

#include <c10/util/accumulate.h>

namespace cairn::checkpoints::megatron {

namespace {

using Kind = PythonValue::Kind;

/// A number, or a tensor of one.
std::optional<double> number_in(const std::optional<PythonValue>& value) {
  if (!value) {
    return std::nullopt;
  }
  if (value->is(Kind::real) || value->is(Kind::integer)) {
    return value->real();
  }
  const bool one = value->is(Kind::tensor) &&
      c10::multiply_integers(value->stored().sizes) == 1;
  return one ? std::optional(value->tensor().to(at::kDouble).item<double>())
             : std::nullopt;
}

} // namespace

// Megatron counts the updates since the last overflow, DeepSpeed all updates
// and the last one that overflowed.
PythonValue loss_scaler_of(const PythonValue& optimizer) {
  const auto scaler =
      optimizer.is(Kind::dict) ? optimizer.find("grad_scaler") : std::nullopt;
  if (!scaler || !scaler->is(Kind::dict)) {
    return {};
  }
  const auto scale = number_in(scaler->find("scale"));
  const auto clean = number_in(scaler->find("growth_tracker"));
  const auto hysteresis = number_in(scaler->find("hysteresis_tracker"));
  if (!scale || !clean || !hysteresis) {
    return {};
  }
  const auto whole = [](double value) {
    return PythonValue::integer(static_cast<std::int64_t>(value));
  };
  return PythonValue::dict_of(
      {{"dynamic_loss_scale", PythonValue::boolean(true)},
       {"cur_scale", PythonValue::real(*scale)},
       {"cur_iter", whole(*clean)},
       {"last_overflow_iter", PythonValue::integer(-1)},
       {"cur_hysteresis", whole(*hysteresis)}});
}

} // namespace cairn::checkpoints::megatron
