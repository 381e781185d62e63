#include "engine/core.h"
#include "zero/sum_of_squares.h"
#include "zero/sum_over.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

// Figures about the state of a training. They are taken from what would be
// saved: there, too, the ranks together have every element once.

namespace cairn::engine {

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

class ZeroCounter final : public checkpoints::Sink {
 public:
  void put(const checkpoints::TensorSlice& slice) override {
    zeros += slice.values.numel() -
        at::count_nonzero(slice.values).item<std::int64_t>();
  }
  std::int64_t zeros = 0;
};

} // namespace

std::int64_t Core::count_zeros() const {
  ZeroCounter counter;
  for (int b = 0; b < flat_->buckets() && layout_->buckets()[b].trainable;
       ++b) {
    at::Tensor gradient = reducer_->gradient(b);
    const zero::Range held = reducer_->options().shards
        ? layout_->shard(b, rank_in(b))
        : zero::Range{0, layout_->buckets()[b].elements};
    put_slices(counter, b, held, "gradient", gradient);
  }
  return zero::sum_over(world_.group(), at::full({1}, counter.zeros, at::kLong))
      .item<std::int64_t>();
}

double Core::parameter_norm() {
  const torch::autograd::AutoGradMode no_grad(false);
  WeightSummer summer;
  put_state(summer, {.optimizer = false, .rng = false}, false);
  return std::sqrt(
      zero::sum_over(world_.group(), at::full({1}, summer.squares, at::kDouble))
          .item<double>());
}

std::vector<ElementSums> Core::state_sums(
    const std::vector<std::string>& kinds) {
  const torch::autograd::AutoGradMode no_grad(false);
  ElementSummer summer(kinds);
  put_state(summer, {.rng = false}, false);
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
  sums = zero::sum_over(world_.group(), sums);
  largest = zero::sum_over(world_.group(), largest, distributed::ReduceOp::max);
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

} // namespace cairn::engine
