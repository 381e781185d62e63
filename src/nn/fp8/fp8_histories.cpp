#include "nn/internal/fp8_histories.h"

#include "nn/fp8/fp8_history.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>

namespace cairn::nn {
namespace {

/// Largest values below this say nothing about a matrix.
constexpr double least_largest = 1e-30;

std::vector<std::shared_ptr<Fp8History>> histories_of(
    const torch::nn::Module& model) {
  std::vector<std::shared_ptr<Fp8History>> found;
  for (const auto& module : model.modules()) {
    const auto* const layer = dynamic_cast<const Fp8Layer*>(module.get());
    if (layer != nullptr && layer->fp8_history() &&
        std::ranges::find(found, layer->fp8_history()) == found.end()) {
      found.push_back(layer->fp8_history());
    }
  }
  return found;
}

} // namespace

Fp8Histories::Fp8Histories(torch::nn::Module& model, Weights weights)
    : all_(histories_of(model)), ready_(all_.empty()) {
  if (all_.empty()) {
    return;
  }
  const at::Tensor& like = all_.front()->buffer();
  const auto count = static_cast<std::int64_t>(all_.size());
  memory_ =
      at::empty({count * Fp8History::factors, like.size(1)}, like.options());
  std::vector<float> limits;
  for (std::int64_t i = 0; i < count; ++i) {
    Fp8History& each = *all_[static_cast<std::size_t>(i)];
    each.move_to(
        memory_.narrow(0, i * Fp8History::factors, Fp8History::factors));
    if (weights == Weights::kept) {
      each.keep_weight();
    }
    const double room = std::exp2(static_cast<double>(each.delay().margin));
    for (const at::ScalarType type :
         {fp8_of_values, fp8_of_values, fp8_of_gradients(each.format())}) {
      limits.push_back(static_cast<float>(fp8_limit(type) / room));
    }
  }
  limits_ = at::tensor(limits).to(like.device());
}

void Fp8Histories::begin_update() {
  for (const auto& each : all_) {
    each->forget_weight();
  }
}

void Fp8Histories::look() {
  if (!ready_ && memory_.select(1, Fp8History::unit).ne(0).all().item<bool>()) {
    set_ready();
  }
}

void Fp8Histories::advance(std::span<const distributed::ProcessGroup> groups) {
  if (all_.empty()) {
    return;
  }
  const at::NoGradGuard no_grad;
  const Fp8Delay& delay = all_.front()->delay();
  const at::Tensor numbers = memory_.view(at::kFloat);
  const at::Tensor newest = numbers.select(1, Fp8History::largest).contiguous();
  for (const distributed::ProcessGroup& group : groups) {
    if (group.size() > 1) {
      group.all_reduce(newest, distributed::ReduceOp::max).wait();
    }
  }
  const at::Tensor history = at::cat(
      {newest.unsqueeze(1),
       numbers.narrow(1, Fp8History::earlier, delay.history - 1)},
      1);
  const at::Tensor range =
      delay.from == Fp8Delay::From::max ? at::amax(history, 1) : newest;
  // A matrix of zeros, or one that no pass made, keeps the unit that it had.
  at::Tensor unit = numbers.select(1, Fp8History::unit);
  const at::Tensor before = at::where(unit.gt(0), unit, at::ones_like(unit));
  unit.copy_(at::where(range.gt(least_largest), range / limits_, before));
  numbers.narrow(1, Fp8History::earlier, delay.history).copy_(history);
  numbers.select(1, Fp8History::largest).zero_();
  begin_update();
  set_ready();
}

void Fp8Histories::set_ready() {
  for (const auto& each : all_) {
    each->set_ready();
  }
  ready_ = true;
}

bool is_fp8_history(std::string_view buffer_name) {
  return buffer_name.ends_with(Fp8History::buffer_name);
}

} // namespace cairn::nn
