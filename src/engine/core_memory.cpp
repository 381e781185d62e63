#include "engine/core.h"
#include "engine/device_memory.h"
#include "engine/out_of_memory.h"

#include <cairn/base/error.h>
#include <cairn/nn/parameter_slices.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

// What the engine holds, and what it says when there is no more.

namespace cairn::engine {

/// Also while the engine is being made, when not all of it is there.
MemoryReport Core::memory_report() const {
  MemoryReport report;
  report.device = device_.str();
  if (flat_) {
    const zero::FlatParameters::Bytes bytes = flat_->bytes();
    report.parameters = bytes.whole + bytes.shards;
    report.parameters_on_cpu = bytes.on_cpu;
    report.parameters_on_disk = bytes.on_disk;
    report.gathered = bytes.live;
  }
  if (reducer_) {
    report.gradients = reducer_->bytes();
    report.gradients_on_cpu = reducer_->bytes_on_cpu();
  }
  if (optimizer_) {
    const zero::ShardTier::Bytes bytes = optimizer_->bytes();
    const bool on_cpu =
        policy_.optimizer_tier != zero::Tier::device && device_.is_cuda();
    (on_cpu ? report.optimizer_on_cpu : report.optimizer) = bytes.memory;
    report.optimizer_on_disk = bytes.disk;
  }
  for (const at::Tensor& buffer : model_.module().buffers()) {
    report.buffers += static_cast<std::int64_t>(buffer.nbytes());
  }
  report.activations = activations_.most();
  const monitor::AllocatedMemory held = allocated(device_);
  report.allocated = static_cast<std::int64_t>(held.bytes);
  report.most_allocated = static_cast<std::int64_t>(held.peak_bytes);
  report.other = report.allocated - report.model_states() - report.gathered -
      report.buffers;
  return report;
}

std::int64_t Core::gathered_bytes() const {
  return gatherer_ ? flat_->bytes().live : 0;
}

void Core::fail(std::string_view doing) const {
  try {
    throw;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) {
      throw;
    }
    const std::string_view text = error.what();
    explain_shortage(doing, std::string(text.substr(0, text.find('\n'))));
  }
}

void Core::explain_shortage(std::string_view doing, const std::string& cause)
    const {
  Shortage shortage{
      .plan =
          {.ranks = group_.size(),
           .expert_ranks = groups_.experts.size(),
           .on_gpu = device_.is_cuda(),
           .optimizer_states = optimizer_states_,
           .precision = precision_,
           .policy = policy_},
      .micro_batch = batch().micro,
      .accumulation = batch().accumulation,
      .activations = activations_.most(),
      .checkpoints_activations = checkpoint_options_used_,
      .clients_optimizer = clients_optimizer_,
      .before_training = !optimizer_};
  const std::vector<std::string> experts =
      nn::expert_parameters(model_.module());
  for (const auto& parameter : model_.module().named_parameters()) {
    const std::int64_t elements = parameter.value().numel();
    shortage.plan.elements += elements;
    if (std::ranges::find(experts, parameter.key()) != experts.end()) {
      shortage.plan.expert_elements += elements;
    }
  }
  const auto ways = remedies(shortage);
  const ModelStates states = model_states_of(shortage.plan);
  const auto megabytes = [](std::int64_t bytes) {
    return static_cast<double>(bytes) / 1e6;
  };
  logger_.error(
      "out of memory in {} on {}: {}\n{}"
      "  by plan: parameters {:.1f} MB, gradients {:.1f} MB, optimizer {:.1f} "
      "MB{}{}",
      doing,
      device_.str(),
      cause,
      memory_report().describe(),
      megabytes(states.parameters),
      megabytes(states.gradients),
      megabytes(states.optimizer),
      ways.empty() ? "" : "\nwhat would need less, the cheapest first:",
      describe(ways));
  throw Error(
      {.what = fmt::format("out of memory in {}", doing),
       .where = device_.str(),
       .values = cause,
       .remedy = ways.empty() ? "use a smaller model, or more ranks"
                              : ways.front().what + "; the log has more"});
}

} // namespace cairn::engine
