#include "pipeline/internal/stage_cuts.h"

#include "config/internal/describe_model.h"
#include "config/internal/virtual_stages.h"
#include "model/internal/activations.h"
#include "pipeline/layout_text.h"

#include <cairn/base/error.h>
#include <cairn/model/parameters.h>
#include <cairn/pipeline/partition.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

namespace cairn::pipeline {
namespace {

using config::Config;
using config::DistributedFlags;
using model::Layer;
using model::ModelDescription;

/// The ways to ask for a cut, of which one may be used.
std::vector<std::string> ways_asked_for(const Config& config) {
  const DistributedFlags& flags = config.flags.distributed;
  std::vector<std::string> ways;
  if (flags.layers_in_first_stage || flags.layers_in_last_stage) {
    ways.emplace_back("--num-layers-in-first-pipeline-stage or …-last-…");
  }
  if (flags.embedding_counts_as_layer || flags.loss_counts_as_layer) {
    ways.emplace_back("--account-for-…-in-pipeline-split");
  }
  if (flags.pipeline_layout) {
    ways.emplace_back("--pipeline-model-parallel-layout");
  }
  if (config.given.contains("pipeline.partition")) {
    ways.emplace_back("pipeline.partition");
  }
  return ways;
}

/// Cuts after so many blocks each. What stands before the first block belongs
/// to the first part and what stands behind the last block to the last part;
/// between blocks, a norm belongs to those before it and all else to those
/// behind it.
std::vector<int> cuts_after(
    const std::vector<Layer>& layers,
    const std::vector<std::int64_t>& blocks) {
  std::vector<int> cuts{0};
  std::size_t at = 0;
  std::int64_t left =
      std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
  for (const std::int64_t count : blocks) {
    left -= count;
    const auto is = [&](const char* type) {
      return at < layers.size() && layers[at].type == type;
    };
    for (std::int64_t seen = 0; seen < count && at < layers.size(); ++at) {
      seen += layers[at].type == "block" ? 1 : 0;
    }
    if (count == 0 && cuts.size() == 1) { // the embedding alone
      while (at < layers.size() && !is("block")) {
        ++at;
      }
    }
    while (left > 0 && count > 0 && is("norm")) {
      ++at;
    }
    cuts.push_back(static_cast<int>(at));
  }
  cuts.back() = static_cast<int>(layers.size());
  return cuts;
}

std::vector<int> cuts_by_layout(
    const std::vector<Layer>& layers,
    std::int64_t blocks,
    const DistributedFlags& flags) {
  const std::vector<LayoutPart> parts = parse_layout(*flags.pipeline_layout);
  std::vector<std::int64_t> counts;
  for (const LayoutPart& part : parts) {
    counts.push_back(part.blocks);
  }
  const std::int64_t in_all =
      std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const auto size = static_cast<std::int64_t>(parts.size());
  if (in_all != blocks || size % flags.pipeline_parallel != 0) {
    throw ConfigError(
        {.what = "the layout is not this model's",
         .where = "--pipeline-model-parallel-layout",
         .values = fmt::format(
             "{} layers in {} parts; the model has {} layers, the pipeline {} "
             "stages",
             in_all,
             size,
             blocks,
             flags.pipeline_parallel),
         .remedy = "write one t for each layer, and as many parts as there are "
                   "stages, or a multiple of that for virtual stages"});
  }
  return cuts_after(layers, counts);
}

[[noreturn]] void refuse_remainder(
    const std::string& where,
    std::int64_t layers,
    std::int64_t stages) {
  throw ConfigError(
      {.what = "the layers do not come out even",
       .where = where,
       .values = fmt::format("{} layers on {} stages", layers, stages),
       .remedy = "choose numbers that divide, or write the cut down with "
                 "--pipeline-model-parallel-layout"});
}

/// The first and the last stage have as many blocks as the flags say; the
/// others share the rest.
std::vector<std::int64_t> counts_by_ends(
    std::int64_t blocks,
    const DistributedFlags& flags) {
  const std::int64_t stages = flags.pipeline_parallel;
  const std::string where = flags.layers_in_first_stage
      ? "--num-layers-in-first-pipeline-stage"
      : "--num-layers-in-last-pipeline-stage";
  const std::int64_t named = (flags.layers_in_first_stage ? 1 : 0) +
      (flags.layers_in_last_stage ? 1 : 0);
  const std::int64_t rest = blocks - flags.layers_in_first_stage.value_or(0) -
      flags.layers_in_last_stage.value_or(0);
  const std::int64_t others = stages - named;
  if (rest < others) {
    throw ConfigError(
        {.what = "no layers are left for the other stages",
         .where = where,
         .values = fmt::format(
             "{} of {} layers are taken, {} stages remain",
             blocks - rest,
             blocks,
             others),
         .remedy = "give the first and last stage fewer layers"});
  }
  if (others == 0 ? rest != 0 : rest % others != 0) {
    refuse_remainder(where, rest, others == 0 ? stages : others);
  }
  std::vector<std::int64_t> counts(
      static_cast<std::size_t>(stages),
      others > 0 ? rest / others : 0);
  if (flags.layers_in_first_stage) {
    counts.front() = *flags.layers_in_first_stage;
  }
  if (flags.layers_in_last_stage) {
    counts.back() = *flags.layers_in_last_stage;
  }
  return counts;
}

/// The embedding or the loss takes the place of a block.
std::vector<std::int64_t> counts_with_ends(
    std::int64_t blocks,
    std::int64_t parts,
    const DistributedFlags& flags) {
  const std::int64_t in_front = flags.embedding_counts_as_layer ? 1 : 0;
  const std::int64_t behind = flags.loss_counts_as_layer ? 1 : 0;
  const std::int64_t all = blocks + in_front + behind;
  if (all % parts != 0) {
    refuse_remainder(
        in_front != 0 ? "--account-for-embedding-in-pipeline-split"
                      : "--account-for-loss-in-pipeline-split",
        all,
        parts);
  }
  std::vector<std::int64_t> counts(
      static_cast<std::size_t>(parts),
      all / parts);
  counts.front() -= in_front;
  counts.back() -= behind;
  return counts;
}

/// Bytes of the states of a parameter on a stage, roughly: enough to weigh them
/// against activations.
double state_bytes(const Config& config) {
  const config::DeepSpeedConfig& settings = config.deepspeed;
  const bool half = settings.fp16.enabled || settings.bf16.enabled;
  const int stage = static_cast<int>(settings.zero.stage);
  const auto ranks = static_cast<double>(
      config.data_parallel_size * config.flags.distributed.context_parallel);
  const auto share = [&](double bytes, int from_stage) {
    return stage >= from_stage ? bytes / ranks : bytes;
  };
  const double optimizer =
      settings.zero.offload_optimizer ? 0 : (half ? 12.0 : 8.0);
  return share(half ? 2 : 4, 3) + share(4, 2) + share(optimizer, 1);
}

std::vector<StageLoad> loads_of(
    const ModelDescription& d,
    const Config& config,
    const std::vector<Layer>& layers) {
  const DistributedFlags& flags = config.flags.distributed;
  const bool half =
      config.deepspeed.fp16.enabled || config.deepspeed.bf16.enabled;
  const model::ActivationOptions options{
      .sequence =
          config::sequence_length(config.flags.data) / flags.context_parallel,
      .batch = config.deepspeed.batch ? config.deepspeed.batch->micro : 1,
      .element_bytes = half ? 2.0 : 4.0,
      .tensor_ranks = flags.tensor_parallel,
      .sequence_parallel = flags.sequence_parallel,
      .recompute = config.flags.training.recomputes_layers()
          ? model::Recompute::blocks
          : model::Recompute::scores};
  const double per_parameter =
      state_bytes(config) / static_cast<double>(flags.tensor_parallel);
  std::vector<StageLoad> loads;
  std::int64_t block = 0;
  for (const Layer& layer : layers) {
    StageLoad load{
        .states = per_parameter * static_cast<double>(layer.parameters)};
    if (layer.type == "block") {
      // T5's decoder blocks count as those of the encoder.
      load.activations =
          model::activation_bytes(d, block++ % d.layers, options);
    }
    loads.push_back(load);
  }
  return loads;
}

/// Refuses a way of cutting that takes no virtual stages.
void refuse_virtual(const DistributedFlags& flags, const std::string& where) {
  if (flags.has_virtual_stages()) {
    throw ConfigError(
        {.what = "virtual stages have equal numbers of layers",
         .where = where,
         .remedy = "leave one of them out, or write the cut down with "
                   "--pipeline-model-parallel-layout"});
  }
}

void require_blocks(
    const ModelDescription& d,
    std::int64_t stages,
    std::int64_t blocks) {
  if (stages > blocks) {
    throw ConfigError(
        {.what = "a pipeline has at most as many stages as the model layers",
         .where = "--pipeline-model-parallel-size",
         .values = fmt::format(
             "{}; {} layers",
             stages,
             d.family == model::ModelFamily::t5
                 ? fmt::format(
                       "{} encoder and {} decoder",
                       d.layers,
                       d.decoder_layers)
                 : fmt::format("{}", d.layers)),
         .remedy = fmt::format("use at most {} stages", blocks)});
  }
}

} // namespace

std::vector<int> stage_cuts(const ModelDescription& d, const Config& config) {
  const DistributedFlags& flags = config.flags.distributed;
  const std::vector<Layer> layers = model::layers_of(model::with_padding(d));
  const auto stages = static_cast<int>(flags.pipeline_parallel);
  if (stages == 1) { // there is nothing to cut
    return {0, static_cast<int>(layers.size())};
  }
  const std::vector<std::string> ways = ways_asked_for(config);
  if (ways.size() > 1) {
    throw ConfigError(
        {.what = "the cut of the pipeline is given twice",
         .where = ways[0],
         .values = ways[1],
         .remedy = "give one of them"});
  }
  const auto blocks = std::ranges::count(layers, "block", &Layer::type);
  if (flags.pipeline_layout) {
    refuse_virtual(flags, "--pipeline-model-parallel-layout");
    return cuts_by_layout(layers, blocks, flags);
  }
  if (flags.embedding_counts_as_layer || flags.loss_counts_as_layer) {
    refuse_virtual(flags, ways[0]);
    return cuts_after(layers, counts_with_ends(blocks, stages, flags));
  }
  require_blocks(d, stages, blocks);
  if (flags.layers_in_first_stage || flags.layers_in_last_stage) {
    refuse_virtual(flags, ways[0]);
    return cuts_after(layers, counts_by_ends(blocks, flags));
  }
  std::vector<LayerFacts> facts;
  for (const Layer& layer : layers) {
    facts.push_back(
        {.type = layer.type,
         .parameters = static_cast<double>(layer.parameters),
         .idle = static_cast<double>(layer.idle)});
  }
  const int parts = stages * config::virtual_stages(flags, blocks);
  const std::string& method = config.deepspeed.pipeline.partition;
  if (ways.empty()) {
    return partition(facts, parts, by_work(facts, /*equal_blocks=*/true));
  }
  if (method == "balanced") {
    refuse_virtual(flags, "pipeline.partition");
    return partition_within(
        by_work(facts, /*equal_blocks=*/false).weights,
        loads_of(d, config, layers),
        partition(facts, stages, by_work(facts, /*equal_blocks=*/true)));
  }
  return partition(facts, parts, PartitionMethod::parse(method));
}

} // namespace cairn::pipeline
