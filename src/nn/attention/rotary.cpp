#include <cairn/nn/attention.h>

#include "kernels/internal/cuda/rotate.h"
#include "nn/linear/gpu_kernel.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cairn::nn {
namespace {

double slowed(double frequency, const model::RopeScaling& scaling) {
  const double slow = frequency / scaling.factor;
  if (scaling.kind != "llama3") {
    return slow;
  }
  const double waves = static_cast<double>(scaling.original_positions) *
      frequency / (2 * std::numbers::pi);
  if (waves < scaling.low_frequency_factor) {
    return slow;
  }
  if (waves > scaling.high_frequency_factor) {
    return frequency;
  }
  const double mix = (waves - scaling.low_frequency_factor) /
      (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1 - mix) * slow + mix * frequency;
}

/// The pair of a head's elements that turns `turns` times within the original
/// context, as a number between pairs.
double pair_with(double turns, const RotaryOptions& options) {
  const double waves =
      static_cast<double>(options.scaling->original_positions) /
      (2 * std::numbers::pi * turns);
  return static_cast<double>(options.head_size) * std::log(waves) /
      (2 * std::log(options.theta));
}

double mixed_by_yarn(
    double frequency,
    std::int64_t pair,
    const RotaryOptions& options) {
  const model::YarnScaling& yarn = *options.scaling->yarn;
  double begin = pair_with(yarn.fast_turns, options);
  double end = pair_with(yarn.slow_turns, options);
  if (yarn.whole_pairs) {
    begin = std::floor(begin);
    end = std::ceil(end);
  }
  begin = std::max(begin, 0.0);
  end = std::min(end, static_cast<double>(options.head_size - 1));
  // As transformers does where both are the same.
  const double length = end == begin ? 0.001 : end - begin;
  const double slow =
      std::clamp((static_cast<double>(pair) - begin) / length, 0.0, 1.0);
  return frequency * (slow / options.scaling->factor + 1 - slow);
}

double scaled(
    double frequency,
    std::int64_t pair,
    const RotaryOptions& options) {
  if (!options.scaling || options.scaling->kind == "dynamic") {
    return frequency;
  }
  return options.scaling->yarn ? mixed_by_yarn(frequency, pair, options)
                               : slowed(frequency, *options.scaling);
}

/// True when the GPU's kernel turns x: heads may lie apart, but not the
/// elements of one.
bool has_kernel(
    const at::Tensor& x,
    const at::Tensor& cosine,
    const at::Tensor& sine) {
  return x.dim() == 4 && x.stride(3) == 1 && x.numel() > 0 && is_on_gpu(x) &&
      has_row_kernels(cosine) && has_row_kernels(sine) &&
      cosine.scalar_type() == x.scalar_type() &&
      sine.scalar_type() == x.scalar_type() && cosine.sizes() == sine.sizes() &&
      cosine.size(1) == x.size(1) &&
      (cosine.size(0) == 1 || cosine.size(0) == x.size(0)) &&
      2 * cosine.size(3) == x.size(3);
}

/// Turns x by the angles of the tables, [1 or batch, sequence, 1, half].
at::Tensor turned_on_gpu(
    const at::Tensor& x,
    const at::Tensor& cosine,
    const at::Tensor& sine,
    double direction) {
  at::Tensor result = at::empty(x.sizes(), x.options());
  run_kernel(x, "rotary positions", [&](void* stream) {
    return kernels::cuda::rotate(
        {.batch = x.size(0),
         .sequence = x.size(1),
         .heads = x.size(2),
         .half = x.size(3) / 2,
         .batch_step = x.stride(0),
         .token_step = x.stride(1),
         .head_step = x.stride(2),
         .positions = cosine.size(0) * cosine.size(1),
         .element = *kernels::element_of(x.scalar_type()),
         .back = direction < 0},
        x.const_data_ptr(),
        cosine.const_data_ptr(),
        sine.const_data_ptr(),
        result.mutable_data_ptr(),
        stream);
  });
  return result;
}

at::Tensor turned(
    const at::Tensor& x,
    const at::Tensor& cosine,
    const at::Tensor& sine,
    double direction) {
  if (has_kernel(x, cosine, sine)) {
    return turned_on_gpu(x, cosine, sine, direction);
  }
  const std::int64_t half = cosine.size(-1);
  const std::int64_t rest = x.size(-1) - 2 * half;
  const at::Tensor first = x.narrow(-1, 0, half);
  const at::Tensor second = x.narrow(-1, half, half);
  at::Tensor result = at::empty(x.sizes(), x.options());
  at::Tensor first_result = result.narrow(-1, 0, half);
  at::Tensor second_result = result.narrow(-1, half, half);
  at::mul_out(first_result, first, cosine);
  first_result.addcmul_(second, sine, -direction);
  at::mul_out(second_result, second, cosine);
  second_result.addcmul_(first, sine, direction);
  if (rest > 0) {
    result.narrow(-1, 2 * half, rest).copy_(x.narrow(-1, 2 * half, rest));
  }
  return result;
}

/// A rotation; its gradient is turned back.
struct Rotation : torch::autograd::Function<Rotation> {
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& cosine,
      const at::Tensor& sine) {
    context->save_for_backward({cosine, sine});
    return turned(x, cosine, sine, 1);
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {turned(gradients[0], saved[0], saved[1], -1), {}, {}};
  }
};

} // namespace

Rotary::Rotary(const RotaryOptions& options) {
  const model::LongScaling* longrope =
      options.scaling && options.scaling->longrope ? &*options.scaling->longrope
                                                   : nullptr;
  for (std::int64_t i = 0; i < options.head_size; i += 2) {
    const double frequency = std::pow(
        options.theta,
        -static_cast<double>(i) / static_cast<double>(options.head_size));
    const auto pair = static_cast<std::size_t>(i / 2);
    if (longrope != nullptr) {
      table_.frequencies.push_back(
          static_cast<float>(frequency / longrope->short_factors.at(pair)));
      long_table_.frequencies.push_back(
          static_cast<float>(frequency / longrope->long_factors.at(pair)));
    } else {
      table_.frequencies.push_back(
          static_cast<float>(scaled(frequency, i / 2, options)));
    }
  }
  if (options.scaling && options.scaling->yarn) {
    factor_ = options.scaling->yarn->attention_factor;
  }
  if (longrope != nullptr) {
    factor_ = longrope->attention_factor;
    longest_short_ = options.scaling->original_positions;
  }
}

void Rotary::grow(
    Table& table,
    std::int64_t sequence,
    at::ScalarType dtype,
    at::Device device) const {
  const bool fits = table.cosine.defined() &&
      table.cosine.scalar_type() == dtype && table.cosine.device() == device &&
      table.cosine.size(0) >= sequence;
  if (fits) {
    return;
  }
  const at::Tensor angle = at::outer(
      at::arange(sequence, at::kFloat),
      at::tensor(table.frequencies, at::kFloat));
  table.cosine = angle.cos().mul_(factor_).to(device, dtype);
  table.sine = angle.sin().mul_(factor_).to(device, dtype);
}

std::pair<at::Tensor, at::Tensor> Rotary::angles(
    const at::Tensor& positions,
    std::int64_t sequence,
    at::ScalarType dtype,
    at::Device device) const {
  const std::lock_guard lock(mutex_);
  Table& own =
      longest_short_ && sequence > *longest_short_ ? long_table_ : table_;
  grow(own, sequence, dtype, device);
  const auto chosen = [&](const at::Tensor& table) {
    const std::int64_t half = table.size(1);
    if (!positions.defined()) {
      return table.narrow(0, 0, sequence).view({1, sequence, 1, half});
    }
    return table.index_select(0, positions.reshape({-1}))
        .view({positions.size(0), positions.size(1), 1, half});
  };
  return {chosen(own.cosine), chosen(own.sine)};
}

at::Tensor rotate(
    const at::Tensor& x,
    const at::Tensor& cosine,
    const at::Tensor& sine) {
  return Rotation::apply(x, cosine, sine);
}

} // namespace cairn::nn
