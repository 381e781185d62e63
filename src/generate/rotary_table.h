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
  /// Turns a head in place, or the part of it that the model turns, by the
  /// angles of a position, which the table has, in a text of that length.
  void turn(float* head, std::int64_t position, std::int64_t text_length) const;

 private:
  struct Angles {
    at::Tensor cosine{}; ///< [positions, half], fp32
    at::Tensor sine{};
  };
  /// The angles of the first positions, in a text of that length.
  Angles angles(std::int64_t positions, std::int64_t text_length) const;

  std::optional<nn::Rotary> rotary_;
  std::int64_t half_;
  std::optional<std::int64_t> longest_short_; ///< see longest_short_text()
  std::int64_t positions_ = 0;
  Angles angles_;
  Angles long_angles_; ///< of texts beyond `longest_short_`
};

} // namespace cairn::generate
