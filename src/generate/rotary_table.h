#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/model/description.h>
#include <cairn/nn/attention.h>

#include <cstdint>
#include <optional>

namespace cairn::generate {

/// The angles of rotary positions, as nn::Rotary has them, for the positions
/// that were needed so far. Models without rotary positions turn nothing.
class RotaryTable {
 public:
  explicit RotaryTable(const model::ModelDescription& model);

  void grow(std::int64_t positions);
  /// Turns a head in place by the angles of a position, which the table has.
  void turn(float* head, std::int64_t position) const;

 private:
  std::optional<nn::Rotary> rotary_;
  std::int64_t half_;
  std::int64_t positions_ = 0;
  at::Tensor cosine_; ///< [positions, half], fp32
  at::Tensor sine_;
};

} // namespace cairn::generate
