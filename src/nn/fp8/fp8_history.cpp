#include "nn/fp8/fp8_history.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <utility>

namespace cairn::nn {

Fp8History::Fp8History(
    at::Tensor buffer,
    Fp8Format format,
    const Fp8Delay& delay)
    : buffer_(std::move(buffer)), format_(format), delay_(delay) {}

void Fp8History::move_to(const at::Tensor& memory) {
  const at::NoGradGuard no_grad;
  at::Tensor(memory).copy_(buffer_);
  buffer_.set_data(memory);
  for (std::int64_t factor = 0; factor < factors; ++factor) {
    const auto number = [&](Place place) {
      // A version of its own: autograd must not take a number that is noted
      // between forward and backward for a change of the unit beside it.
      return memory.select(0, factor)
          .narrow(0, place, 1)
          .view(at::kFloat)
          .variable_data();
    };
    largest_[static_cast<std::size_t>(factor)] = number(largest);
    units_[static_cast<std::size_t>(factor)] = number(unit);
  }
}

Fp8Scale Fp8History::scale_of(Factor factor) const {
  return {
      .unit = ready_ ? units_[factor] : at::Tensor(),
      .largest = at::GradMode::is_enabled() ? largest_[factor] : at::Tensor()};
}

std::optional<Fp8Matrix> Fp8History::kept_weight(
    const at::Tensor& matrix,
    const Fp8Scale& scale) const {
  if (!keeps_weight_ || !ready_) {
    return std::nullopt;
  }
  const bool fits = weight_.rows.defined() &&
      weight_.rows.sizes() == matrix.sizes() &&
      weight_.rows.device() == matrix.device();
  if (fits && weight_is_known_) {
    return weight_;
  }
  if (!scale.largest.defined()) {
    return std::nullopt; // evaluation, between updates
  }
  if (!fits) {
    const auto options = matrix.options().dtype(fp8_of_values);
    weight_ = {
        .rows = at::empty({matrix.size(0), matrix.size(1)}, options),
        .columns = at::empty({matrix.size(1), matrix.size(0)}, options),
        .unit = scale.unit};
  }
  to_fp8_into(weight_, matrix, scale);
  weight_is_known_ = true;
  return weight_;
}

Fp8Matrix Fp8Scales::weight_to_fp8(const at::Tensor& matrix) const {
  if (history) {
    if (auto kept = history->kept_weight(matrix, weight)) {
      return *std::move(kept);
    }
  }
  return to_fp8({matrix}, fp8_of_values, Fp8Order::rows, weight);
}

Fp8Scales Fp8Scales::of(const std::optional<Fp8Use>& use) {
  if (!use || !use->history) {
    return {};
  }
  const Fp8History& history = *use->history;
  return {
      history.scale_of(Fp8History::input),
      history.scale_of(Fp8History::weight),
      history.scale_of(Fp8History::gradient),
      use->history};
}

Fp8Layer::Fp8Layer(const LayerContext& context) {
  if (context.fp8) {
    fp8_ = Fp8Use{*context.fp8};
  }
}

void Fp8Layer::delay_fp8(const Fp8Delay& delay, at::Device device) {
  if (!fp8_) {
    return;
  }
  history_ = std::make_shared<Fp8History>(
      register_buffer(
          Fp8History::buffer_name,
          at::zeros(
              {Fp8History::factors, Fp8History::width(delay.history)},
              at::TensorOptions(at::kInt).device(device))),
      fp8_->format,
      delay);
  fp8_->history = history_;
}

void delay_fp8(
    torch::nn::Module& model,
    const Fp8Delay& delay,
    at::Device device) {
  for (const auto& module : model.modules()) {
    if (auto* const layer = dynamic_cast<Fp8Layer*>(module.get())) {
      layer->delay_fp8(delay, device);
    }
  }
}

} // namespace cairn::nn
