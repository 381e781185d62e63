#include "engine/core.h"
#include "engine/put_slice.h"

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <string_view>

// Gradients and weights as slices of named tensors, for those who measure them.

namespace cairn::engine {

namespace {

constexpr std::string_view gradient_kind = "gradient";

/// Passes slices of one kind on, without the kind in their names.
struct KindSink final : checkpoints::Sink {
  KindSink(std::string_view wanted, const Core::VisitTensorSlice& to)
      : prefix(name_of(wanted, "")), visit(to) {}
  void put(const checkpoints::TensorSlice& slice) override {
    if (slice.name.starts_with(prefix)) {
      checkpoints::TensorSlice named = slice;
      named.name.erase(0, prefix.size());
      visit(named);
    }
  }
  std::string prefix;
  const Core::VisitTensorSlice& visit;
};

} // namespace

void Core::show_gradients() const {
  const torch::autograd::AutoGradMode no_grad(false);
  KindSink sink(gradient_kind, gradient_watch_);
  const PutSlice put{*layout_, shares_.parameters, model_rank(), sink};
  const double factor = after_ / scaler_.scale();
  const bool shards = reducer_->options().shards;
  for (int b = 0; b < flat_->buckets() && layout_->buckets()[b].trainable;
       ++b) {
    const zero::Range held = shards
        ? layout_->shard(b, rank_in(b))
        : zero::Range{0, layout_->buckets()[b].elements};
    at::Tensor values = reducer_->gradient(b);
    if (factor != 1) {
      values = values.to(at::kFloat) * factor;
    }
    for_each_slice(b, held, saved_here(b, held), gradient_kind, values, put);
  }
}

void Core::visit_weights(const VisitTensorSlice& visit) {
  const torch::autograd::AutoGradMode no_grad(false);
  KindSink sink(weight_kind, visit);
  put_state(sink, {.optimizer = false, .rng = false}, false);
}

} // namespace cairn::engine
