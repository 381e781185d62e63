#include "generate/rotary_table.h"

#include <algorithm>

namespace cairn::generate {

RotaryTable::RotaryTable(const model::ModelDescription& model)
    : half_(model.head_size / 2) {
  if (model.position == model::PositionKind::rotary) {
    rotary_.emplace(nn::RotaryOptions{
        .head_size = model.head_size,
        .theta = model.rope_theta,
        .scaling = model.rope_scaling});
  }
}

void RotaryTable::grow(std::int64_t positions) {
  if (!rotary_ || positions <= positions_) {
    return;
  }
  positions_ = std::max(positions, 2 * positions_);
  const auto [cosine, sine] =
      rotary_->angles({}, positions_, at::kFloat, at::kCPU);
  cosine_ = cosine.contiguous();
  sine_ = sine.contiguous();
}

void RotaryTable::turn(float* head, std::int64_t position) const {
  if (!rotary_) {
    return;
  }
  const float* cosine = cosine_.const_data_ptr<float>() + position * half_;
  const float* sine = sine_.const_data_ptr<float>() + position * half_;
  for (std::int64_t i = 0; i < half_; ++i) {
    const float first = head[i];
    const float second = head[half_ + i];
    head[i] = first * cosine[i] - second * sine[i];
    head[half_ + i] = second * cosine[i] + first * sine[i];
  }
}

} // namespace cairn::generate
