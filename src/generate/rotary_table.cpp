#include "generate/rotary_table.h"

#include <algorithm>

namespace cairn::generate {

RotaryTable::RotaryTable(const model::ModelDescription& model)
    : half_(model::rotary_elements(model) / 2),
      longest_short_(model::longest_short_text(model)) {
  if (model.position == model::PositionKind::rotary) {
    rotary_.emplace(nn::RotaryOptions{
        .head_size = model::rotary_elements(model),
        .theta = model.rope_theta,
        .scaling = model.rope_scaling});
  }
}

RotaryTable::Angles RotaryTable::angles(
    std::int64_t positions,
    std::int64_t text_length) const {
  const auto [cosine, sine] =
      rotary_->angles({}, text_length, at::kFloat, at::kCPU);
  return {
      cosine.narrow(1, 0, positions).contiguous(),
      sine.narrow(1, 0, positions).contiguous()};
}

void RotaryTable::grow(std::int64_t positions) {
  if (!rotary_ || positions <= positions_) {
    return;
  }
  positions_ = std::max(positions, 2 * positions_);
  if (!longest_short_) {
    angles_ = angles(positions_, positions_);
    return;
  }
  const std::int64_t in_short = std::min(positions_, *longest_short_);
  angles_ = angles(in_short, in_short);
  if (positions_ > *longest_short_) {
    long_angles_ = angles(positions_, positions_);
  }
}

void RotaryTable::turn(
    float* head,
    std::int64_t position,
    std::int64_t text_length) const {
  if (!rotary_) {
    return;
  }
  const Angles& own =
      longest_short_ && text_length > *longest_short_ ? long_angles_ : angles_;
  const float* cosine = own.cosine.const_data_ptr<float>() + position * half_;
  const float* sine = own.sine.const_data_ptr<float>() + position * half_;
  for (std::int64_t i = 0; i < half_; ++i) {
    const float first = head[i];
    const float second = head[half_ + i];
    head[i] = first * cosine[i] - second * sine[i];
    head[half_ + i] = second * cosine[i] + first * sine[i];
  }
}

} // namespace cairn::generate
