#include <cairn/pipeline/pipeline_module.h>

#include "pipeline/layer_names.h"
#include "pipeline/seed_scope.h"

#include <ATen/core/grad_mode.h>
#include <cairn/base/error.h>
#include <cairn/nn/checkpoint.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace cairn::pipeline {
namespace {

/// The numbers that are added to the seed, one for each layer: its own number,
/// or for a tied layer that of the first one tied to it.
std::vector<std::size_t> seed_numbers(const std::vector<LayerSpec>& specs) {
  std::map<std::string, std::size_t> first;
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    numbers.push_back(
        specs[i].tie.empty() ? i
                             : first.emplace(specs[i].tie, i).first->second);
  }
  return numbers;
}

double count_parameters(const LayerSpec& spec) {
  if (spec.parameters) {
    return static_cast<double>(*spec.parameters);
  }
  double count = 0;
  if (spec.build) {
    const SeedScope unchanged; // leaves random numbers as they were
    for (const at::Tensor& each : spec.build()->parameters()) {
      count += static_cast<double>(each.numel());
    }
  }
  return count;
}

std::vector<int> cuts_of(
    const std::vector<LayerSpec>& specs,
    const PipelineModuleOptions& options) {
  const int parts = options.stages * options.chunks;
  const bool counts =
      options.partition.kind == PartitionMethod::Kind::parameters && parts > 1;
  std::vector<LayerFacts> facts;
  for (const LayerSpec& spec : specs) {
    facts.push_back({spec.type, counts ? count_parameters(spec) : 0});
  }
  return partition(facts, parts, options.partition);
}

std::vector<PipelineModule::Tie> ties_of(
    const std::vector<LayerSpec>& specs,
    const std::vector<int>& cuts,
    int stages) {
  std::vector<PipelineModule::Tie> ties;
  std::size_t layer = 0;
  for (int part = 0; part + 1 < static_cast<int>(cuts.size()); ++part) {
    const auto end = static_cast<std::size_t>(cuts[part + 1]);
    for (; layer < end; ++layer) {
      const std::string& key = specs[layer].tie;
      if (key.empty()) {
        continue;
      }
      auto found = std::find_if(ties.begin(), ties.end(), [&](const auto& tie) {
        return tie.key == key;
      });
      if (found == ties.end()) {
        found = ties.insert(ties.end(), {key, {}, nullptr, {}});
      }
      found->stages.push_back(part % stages);
    }
  }
  for (PipelineModule::Tie& tie : ties) {
    std::ranges::sort(tie.stages);
    const auto doubled = std::ranges::unique(tie.stages);
    tie.stages.erase(doubled.begin(), doubled.end());
  }
  // Sorted by owner, because with chunks a later layer may be on an earlier
  // stage.
  std::ranges::stable_sort(ties, {}, &PipelineModule::Tie::owner);
  return ties;
}

void check_options(const PipelineModuleOptions& options) {
  if (options.stages < 1 || options.stage < 0 ||
      options.stage >= options.stages) {
    throw UsageError(
        {.what = "no such pipeline stage",
         .values = fmt::format("{} of {}", options.stage, options.stages)});
  }
  if (options.chunks < 1 || (options.chunks > 1 && options.stages == 1)) {
    throw UsageError(
        {.what = "a stage has at least one chunk of the model, and several "
                 "only where there are other stages",
         .values = fmt::format(
             "{} chunks, {} stages",
             options.chunks,
             options.stages)});
  }
  if (options.activation_checkpoint_interval < 0) {
    throw UsageError(
        {.what = "activation_checkpoint_interval counts layers",
         .values = fmt::format("{}", options.activation_checkpoint_interval)});
  }
  if (!options.loss && !options.loss_parts.empty()) {
    throw UsageError(
        {.what = "parts of a loss need a loss function that gives them",
         .where = "loss_parts"});
  }
}

bool has_parameters(const std::shared_ptr<torch::nn::Module>& module) {
  return module && !module->parameters().empty();
}

} // namespace

PipelineModule::PipelineModule(
    std::vector<LayerSpec> layers,
    PipelineModuleOptions options)
    : torch::nn::Module("PipelineModule"), options_(std::move(options)) {
  check_options(options_);
  cuts_ = cuts_of(layers, options_);
  ties_ = ties_of(layers, cuts_, options_.stages);
  build(layers);
  // A module that only one stage uses needs no care.
  std::erase_if(ties_, [](const Tie& tie) { return tie.stages.size() == 1; });
}

void PipelineModule::build(const std::vector<LayerSpec>& specs) {
  const std::uint64_t seed = options_.seed.value_or(current_seed());
  const std::vector<std::size_t> numbers = seed_numbers(specs);
  std::vector<std::size_t> own;
  for (int chunk = 0; chunk < options_.chunks; ++chunk) {
    const auto part =
        static_cast<std::size_t>(chunk * options_.stages + options_.stage);
    begins_.push_back(own.size());
    for (int i = cuts_[part]; i < cuts_[part + 1]; ++i) {
      own.push_back(static_cast<std::size_t>(i));
    }
  }
  begins_.push_back(own.size());
  for (const std::size_t i : own) {
    const LayerSpec& spec = specs[i];
    Layer& layer = layers_.emplace_back();
    layer.call = spec.call;
    layer.is_block = spec.type == "block";
    if (!spec.build) {
      continue;
    }
    const auto tie = std::find_if(ties_.begin(), ties_.end(), [&](Tie& each) {
      return !spec.tie.empty() && each.key == spec.tie;
    });
    if (tie != ties_.end() && tie->module) {
      layer.module = tie->module;
      continue;
    }
    {
      const SeedScope seeded(seed + numbers[i]);
      layer.module = spec.build();
    }
    if (tie != ties_.end()) {
      tie->module = layer.module;
      tie->parameters = layer.module->parameters();
      if (tie->owner() != options_.stage) {
        continue; // a copy
      }
    }
    // The name is that of the first of the tied layers, which may be on another
    // stage.
    const std::string name =
        specs[numbers[i]].name.value_or(fmt::format("layers.{}", numbers[i]));
    register_layer(*this, name, layer.module);
    if (name.empty()) {
      nameless_.push_back(layer.module);
    }
  }
}

Tensors PipelineModule::run(std::size_t begin, std::size_t end, Tensors x)
    const {
  for (std::size_t i = begin; i < end; ++i) {
    x = layers_[i].call(layers_[i].module.get(), x);
  }
  return x;
}

/// Runs layers that backward computes again.
Tensors PipelineModule::run_again(
    std::size_t begin,
    std::size_t end,
    const Tensors& x) const {
  return nn::checkpoint(
      options_.checkpoint,
      [this, begin, end](const Tensors& given) {
        return run(begin, end, given);
      },
      x);
}

Tensors PipelineModule::forward(const Tensors& inputs, int chunk) {
  const std::size_t first = begins_.at(static_cast<std::size_t>(chunk));
  const std::size_t last = begins_.at(static_cast<std::size_t>(chunk) + 1);
  const auto interval =
      static_cast<std::size_t>(options_.activation_checkpoint_interval);
  if (interval == 0) {
    return run(first, last, inputs);
  }
  Tensors x = inputs;
  if (options_.checkpointed_blocks) {
    std::int64_t left = *options_.checkpointed_blocks;
    for (std::size_t i = first; i < last; ++i) {
      x = layers_[i].is_block && left-- > 0 ? run_again(i, i + 1, x)
                                            : run(i, i + 1, std::move(x));
    }
    return x;
  }
  for (std::size_t begin = first; begin < last; begin += interval) {
    const std::size_t end = std::min(begin + interval, last);
    const bool worth_it = std::any_of(
        layers_.begin() + static_cast<std::ptrdiff_t>(begin),
        layers_.begin() + static_cast<std::ptrdiff_t>(end),
        [](const Layer& layer) { return has_parameters(layer.module); });
    x = worth_it ? run_again(begin, end, x) : run(begin, end, std::move(x));
  }
  return x;
}

Tensors PipelineModule::losses(const Tensors& outputs, const Tensors& labels)
    const {
  if (options_.loss) {
    Tensors losses = options_.loss(outputs, labels);
    if (losses.size() != 1 + options_.loss_parts.size() ||
        std::any_of(losses.begin() + 1, losses.end(), [](const at::Tensor& t) {
          return !t.defined() || t.numel() != 1;
        })) {
      throw UsageError(
          {.what = "a pipeline's loss function gives the loss and, as one "
                   "element each, the parts of it that have names",
           .where = "loss_parts",
           .values = fmt::format(
               "{} tensors, {} names",
               losses.size(),
               options_.loss_parts.size())});
    }
    return losses;
  }
  if (outputs.size() != 1 || outputs[0].numel() != 1) {
    throw UsageError(
        {.what = "the last layer of a pipeline without a loss function gives "
                 "the loss",
         .values = fmt::format(
             "{} tensors, {} elements in the first",
             outputs.size(),
             outputs.empty() ? 0 : outputs[0].numel()),
         .remedy = "give PipelineModuleOptions::loss"});
  }
  return {outputs[0]};
}

/// Visits the modules that are not among this one's children.
template <typename Visit>
void PipelineModule::for_each_copy(const Visit& visit) const {
  for (const Tie& tie : ties_) {
    if (tie.module && tie.owner() != options_.stage) {
      visit(*tie.module);
    }
  }
}

std::vector<nn::ParameterSlice> PipelineModule::parameter_slices() const {
  std::vector<nn::ParameterSlice> result;
  for (const auto& layer : nameless_) {
    if (const auto* holds = dynamic_cast<nn::HoldsSlices*>(layer.get())) {
      std::ranges::move(holds->parameter_slices(), std::back_inserter(result));
    }
  }
  return result;
}

std::vector<std::string> PipelineModule::partial_gradients() const {
  std::vector<std::string> result;
  for (const auto& layer : nameless_) {
    if (const auto* holds = dynamic_cast<nn::HoldsSlices*>(layer.get())) {
      std::ranges::move(holds->partial_gradients(), std::back_inserter(result));
    }
  }
  return result;
}

void PipelineModule::train(bool on) {
  Module::train(on);
  for (const auto& layer : nameless_) {
    layer->train(on);
  }
  for_each_copy([&](Module& copy) { copy.train(on); });
}

void PipelineModule::to(
    torch::Device device,
    torch::Dtype dtype,
    bool non_blocking) {
  Module::to(device, dtype, non_blocking);
  for_each_copy([&](Module& copy) { copy.to(device, dtype, non_blocking); });
}

void PipelineModule::to(torch::Dtype dtype, bool non_blocking) {
  Module::to(dtype, non_blocking);
  for_each_copy([&](Module& copy) { copy.to(dtype, non_blocking); });
}

void PipelineModule::to(torch::Device device, bool non_blocking) {
  Module::to(device, non_blocking);
  for_each_copy([&](Module& copy) { copy.to(device, non_blocking); });
}

} // namespace cairn::pipeline
