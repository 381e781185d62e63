#include <cairn/engine/gathered_parameters.h>

#include "engine/core.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <exception>

namespace cairn::inline engine {

GatheredParameters::GatheredParameters(
    const Engine& engine,
    const std::vector<at::Tensor>& parameters,
    const Options& options)
    : core_(engine.core_),
      modifier_rank_(options.modifier_rank),
      exceptions_(std::uncaught_exceptions()) {
  std::vector<int> numbers;
  for (const at::Tensor& parameter : parameters) {
    numbers.push_back(core_->trained.parameters.number_of(parameter));
  }
  open(numbers);
}

GatheredParameters::GatheredParameters(
    const Engine& engine,
    const std::vector<std::string>& names,
    const Options& options)
    : core_(engine.core_),
      modifier_rank_(options.modifier_rank),
      exceptions_(std::uncaught_exceptions()) {
  std::vector<int> numbers;
  for (const std::string& name : names) {
    numbers.push_back(core_->trained.parameters.number_of(name));
  }
  open(numbers);
}

void GatheredParameters::open(const std::vector<int>& parameters) {
  const zero::Layout& layout = *core_->trained.layout;
  if (modifier_rank_ &&
      (*modifier_rank_ < 0 || *modifier_rank_ >= core_->job.group.size())) {
    throw UsageError(
        {.what = "there is no such rank among those that share the parameters",
         .where = "GatheredParameters, modifier_rank",
         .values = fmt::format(
             "{} of {}",
             *modifier_rank_,
             core_->job.group.size())});
  }
  const torch::autograd::AutoGradMode no_grad(false);
  for (const int parameter : parameters) {
    const int bucket = layout.bucket_of(parameter);
    if (modifier_rank_ && layout.buckets()[bucket].expert) {
      throw UsageError(
          {.what = "one rank cannot change experts for all: others have other "
                   "ones",
           .where = layout.parameters()[parameter].name,
           .remedy = "load weights from a checkpoint instead"});
    }
    if (std::ranges::find(buckets_, bucket) == buckets_.end()) {
      if (core_->trained.gatherer) {
        core_->trained.gatherer->pin(bucket);
      }
      buckets_.push_back(bucket);
    }
    if (!modifier_rank_ && !core_->trained.flat->partitioned(bucket)) {
      const at::Tensor tensor =
          core_->trained.parameters.tensors[parameter].detach();
      before_.emplace_back(tensor, tensor.clone());
    }
  }
}

/// Gives all ranks and shards the modifier's values.
void GatheredParameters::keep() {
  const torch::autograd::AutoGradMode no_grad(false);
  for (const int bucket : buckets_) {
    core_->job.group
        .broadcast(core_->trained.flat->whole(bucket), *modifier_rank_)
        .wait();
    core_->trained.flat->keep(bucket);
    core_->trained.optimizer->refresh_weights(bucket);
  }
}

void GatheredParameters::close() {
  const torch::autograd::AutoGradMode no_grad(false);
  for (auto& [tensor, values] : before_) {
    tensor.copy_(values);
  }
  if (core_->trained.gatherer) {
    for (const int bucket : buckets_) {
      core_->trained.gatherer->unpin(bucket);
    }
    core_->trained.gatherer
        ->release_all(); // drops changes that nobody is to keep
  }
}

GatheredParameters::~GatheredParameters() noexcept(false) {
  std::exception_ptr error;
  if (modifier_rank_ && std::uncaught_exceptions() == exceptions_) {
    try {
      keep();
    } catch (...) {
      error = std::current_exception();
    }
  }
  close();
  if (error) {
    std::rethrow_exception(error);
  }
}

} // namespace cairn::engine
