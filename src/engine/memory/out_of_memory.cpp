#include "engine/memory/out_of_memory.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <iterator>
#include <new>
#include <string_view>
#include <utility>

namespace cairn::inline engine {

namespace {

/// Collects remedies, each for the shortage by itself.
class Search {
 public:
  explicit Search(const Shortage& shortage) : shortage_(shortage) {}

  void smaller_micro_batch() {
    const std::int64_t micro = shortage_.micro_batch;
    if (micro < 2) {
      return;
    }
    std::int64_t parts = 2;
    while (micro % parts != 0) {
      ++parts;
    }
    add(fmt::format(
            "train_micro_batch_size_per_gpu {} instead of {}, with "
            "gradient_accumulation_steps {}",
            micro / parts,
            micro,
            shortage_.accumulation * parts),
        part_of_activations(1 - 1.0 / static_cast<double>(parts)));
  }

  void activation_checkpointing() {
    if (!shortage_.checkpoints_activations) {
      add("activation checkpointing: x = cairn::checkpoint(block, x) in the "
          "model's forward",
          part_of_activations(1));
    }
  }

  void next_stage() {
    const zero::Policy& now = shortage_.plan.policy;
    ModelStatesPlan next = shortage_.plan;
    int stage = 1;
    if (!now.partition_optimizer) {
      next.policy.partition_optimizer = true;
    } else if (!now.partition_gradients) {
      stage = 2;
      next.policy.partition_gradients = true;
    } else if (!now.partition_parameters) {
      stage = 3;
      next.policy.partition_parameters = true;
    } else {
      return;
    }
    if (next.ranks > 1) {
      add(fmt::format("zero_optimization.stage {}", stage), saved_by(next));
    }
  }

  void offload_optimizer() {
    const zero::Policy& now = shortage_.plan.policy;
    if (now.shard_ranks > 0) { // offload excludes this
      return;
    }
    const bool on_gpu = shortage_.plan.on_gpu;
    if (now.optimizer_tier == zero::Tier::nvme ||
        (now.optimizer_tier == zero::Tier::cpu && on_gpu) ||
        (shortage_.clients_optimizer && !on_gpu)) { // it takes no NVMe
      return;
    }
    ModelStatesPlan next = shortage_.plan;
    next.policy.partition_optimizer = true;
    next.policy.optimizer_tier =
        next.on_gpu ? zero::Tier::cpu : zero::Tier::nvme;
    add(fmt::format(
            "zero_optimization.offload_optimizer.device \"{}\"{}",
            next.on_gpu ? "cpu" : "nvme",
            now.partition_optimizer ? "" : " with stage 1"),
        saved_by(next));
  }

  void offload_parameters() {
    const zero::Policy& now = shortage_.plan.policy;
    const bool on_gpu = shortage_.plan.on_gpu;
    if (now.second_copy_ranks > 0 || now.weight_wire != zero::Wire::exact ||
        now.frozen_wire != zero::Wire::exact) { // offload excludes these
      return;
    }
    if (now.parameter_tier == zero::Tier::nvme ||
        (now.parameter_tier == zero::Tier::cpu && on_gpu)) {
      return;
    }
    ModelStatesPlan next = shortage_.plan;
    next.policy.partition_optimizer = true;
    next.policy.partition_gradients = true;
    next.policy.partition_parameters = true;
    next.policy.parameter_tier = on_gpu ? zero::Tier::cpu : zero::Tier::nvme;
    add(fmt::format(
            "zero_optimization.offload_param.device \"{}\"{}",
            on_gpu ? "cpu" : "nvme",
            now.partition_parameters ? "" : " with stage 3"),
        saved_by(next));
  }

  void sixteen_bits() {
    if (shortage_.plan.precision.compute != at::kFloat) {
      return;
    }
    ModelStatesPlan next = shortage_.plan;
    next.precision.compute = at::kBFloat16;
    std::optional<std::int64_t> saves = part_of_activations(0.5);
    if (saves) {
      *saves += saved_by(next);
    }
    add("bf16.enabled", saves);
  }

  std::vector<Remedy> result() { return std::move(found_); }

 private:
  std::optional<std::int64_t> part_of_activations(double part) const {
    if (shortage_.activations <= 0) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(
        static_cast<double>(shortage_.activations) * part);
  }
  std::int64_t saved_by(const ModelStatesPlan& next) const {
    return model_states_of(shortage_.plan).sum() - model_states_of(next).sum();
  }
  void add(std::string what, std::optional<std::int64_t> saves) {
    if (!saves || *saves > 0) {
      found_.push_back({std::move(what), saves});
    }
  }

  const Shortage& shortage_;
  std::vector<Remedy> found_;
};

} // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
      dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return true;
  }
  // The CPU's allocator and pinned memory throw plain errors.
  const std::string_view text = error.what();
  return dynamic_cast<const c10::Error*>(&error) != nullptr &&
      (text.find("can't allocate memory") != text.npos ||
       text.find("not enough memory") != text.npos ||
       text.find("out of memory") != text.npos);
}

std::vector<Remedy> remedies(const Shortage& shortage) {
  const bool activations = !shortage.before_training;
  const bool zero =
      !shortage.plan.precision.autocast; // they exclude each other
  Search search(shortage);
  if (activations) {
    search.smaller_micro_batch();
    search.activation_checkpointing();
  }
  if (zero) {
    search.next_stage();
    search.offload_optimizer();
    search.offload_parameters();
  }
  if (activations && zero) {
    search.sixteen_bits();
  }
  return search.result();
}

std::string describe(const std::vector<Remedy>& remedies) {
  std::string text;
  for (std::size_t i = 0; i < remedies.size(); ++i) {
    const Remedy& remedy = remedies[i];
    fmt::format_to(
        std::back_inserter(text),
        "\n  {}. {}{}",
        i + 1,
        remedy.what,
        remedy.saves ? fmt::format(
                           " (saves up to {:.1f} MB)",
                           static_cast<double>(*remedy.saves) / 1e6)
                     : "");
  }
  return text;
}

} // namespace cairn::engine
