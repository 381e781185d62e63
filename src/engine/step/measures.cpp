#include "engine/step/measures.h"

#include "engine/save/checkpoint_names.h"
#include "engine/save/kind_sink.h"
#include "zero/internal/sum_of_squares.h"
#include "zero/internal/sum_over.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

namespace cairn::inline engine {

namespace {

class ElementSummer final : public checkpoints::Sink {
 public:
  explicit ElementSummer(std::span<const std::string> kinds) {
    for (const std::string& kind : kinds) {
      sums_[kind];
    }
  }

  void put(const checkpoints::TensorSlice& slice) override {
    const auto found = sums_.find(slice.name.substr(0, slice.name.find('/')));
    if (found == sums_.end()) {
      return;
    }
    ElementSums& sums = found->second;
    const at::Tensor absolutes = at::abs(slice.values);
    sums.squares += zero::sum_of_squares(slice.values);
    sums.absolutes += at::sum(absolutes, at::kDouble).item<double>();
    sums.roots += at::sum(at::sqrt(absolutes), at::kDouble).item<double>();
    sums.largest = std::max(sums.largest, at::max(absolutes).item<double>());
  }

  const ElementSums& of(const std::string& kind) const {
    return sums_.at(kind);
  }

 private:
  std::map<std::string, ElementSums> sums_;
};

class WeightSummer final : public checkpoints::Sink {
 public:
  void put(const checkpoints::TensorSlice& slice) override {
    if (slice.name.starts_with("weight/")) {
      squares += zero::sum_of_squares(slice.values);
    }
  }
  double squares = 0;
};

} // namespace

double parameter_norm(
    const TrainingState& state,
    const distributed::ProcessGroup& world) {
  const torch::autograd::AutoGradMode no_grad(false);
  WeightSummer summer;
  state.put(
      summer,
      {.optimizer = false, .rng = false},
      TrainingState::Content::values);
  return std::sqrt(
      zero::sum_over(world, at::full({1}, summer.squares, at::kDouble))
          .item<double>());
}

std::vector<ElementSums> state_sums(
    const TrainingState& state,
    const distributed::ProcessGroup& world,
    const std::vector<std::string>& kinds) {
  const torch::autograd::AutoGradMode no_grad(false);
  ElementSummer summer(kinds);
  state.put(summer, {.rng = false}, TrainingState::Content::values);
  const auto count = static_cast<std::int64_t>(kinds.size());
  at::Tensor sums = at::empty({3, count}, at::kDouble);
  at::Tensor largest = at::empty({count}, at::kDouble);
  for (std::int64_t i = 0; i < count; ++i) {
    const ElementSums& mine = summer.of(kinds[i]);
    sums[0][i] = mine.squares;
    sums[1][i] = mine.absolutes;
    sums[2][i] = mine.roots;
    largest[i] = mine.largest;
  }
  sums = zero::sum_over(world, sums);
  largest = zero::sum_over(world, largest, distributed::ReduceOp::max);
  std::vector<ElementSums> result;
  for (std::int64_t i = 0; i < count; ++i) {
    result.push_back(
        {.squares = sums[0][i].item<double>(),
         .absolutes = sums[1][i].item<double>(),
         .roots = sums[2][i].item<double>(),
         .largest = largest[i].item<double>()});
  }
  return result;
}

void visit_weights(
    const TrainingState& state,
    const std::function<void(const checkpoints::TensorSlice& slice)>& visit) {
  const torch::autograd::AutoGradMode no_grad(false);
  KindSink sink(weight_kind, visit);
  state.put(
      sink,
      {.optimizer = false, .rng = false},
      TrainingState::Content::values);
}

} // namespace cairn::engine
