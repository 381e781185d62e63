#include "plan/stage_shares.h"

#include <cairn/base/error.h>
#include <cairn/model/parameters.h>
#include <cairn/pipeline/partition.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace cairn::plan {
namespace {

using model::ModelParameter;

std::int64_t share_of(const ModelParameter& parameter, const RunLayout& run) {
  const std::int64_t all = parameter.elements() /
      (parameter.cut == model::TensorCut::whole ? 1 : run.tensor);
  return model::is_expert(parameter) ? all / run.expert : all;
}

std::vector<int> cuts_of(
    const RunLayout& run,
    const std::vector<pipeline::LayerFacts>& layers,
    std::size_t count) {
  const int end = static_cast<int>(layers.size());
  if (count == 1) {
    return {0, end};
  }
  if (run.cuts.empty()) {
    return pipeline::partition(
        layers,
        static_cast<int>(count),
        pipeline::by_work(layers, /*equal_blocks=*/true));
  }
  if (run.cuts.size() != count + 1 || run.cuts.front() != 0 ||
      run.cuts.back() != end || !std::ranges::is_sorted(run.cuts)) {
    throw ConfigError(
        {.what = "the cut is not one of these layers into these stages",
         .where = "the layout",
         .values = fmt::format("{} layers, {} parts", end, count)});
  }
  return run.cuts;
}

} // namespace

std::int64_t shard_ranks(const RunLayout& layout) {
  return layout.shard_ranks > 0 ? layout.shard_ranks
                                : layout.data() * layout.context;
}

std::vector<PartShare> part_shares(
    const Training& training,
    const RunLayout& run) {
  const std::vector<model::Layer> layers =
      model::layers_of(training.model, run.tensor);
  std::map<std::string, std::vector<ModelParameter>> parameters;
  for (ModelParameter& each : model::model_parameters(training.model)) {
    parameters[each.layer].push_back(std::move(each));
  }
  std::vector<pipeline::LayerFacts> facts;
  for (const model::Layer& layer : layers) {
    facts.push_back(
        {.type = layer.type,
         .parameters = static_cast<double>(layer.parameters),
         .idle = static_cast<double>(layer.idle)});
  }
  const auto count = static_cast<std::size_t>(run.pipeline * run.chunks);
  const std::vector<int> cuts = cuts_of(run, facts, count);
  std::vector<PartShare> parts(count);
  std::int64_t block = 0;
  const auto stages = static_cast<std::size_t>(run.pipeline);
  for (std::size_t p = 0; p < count; ++p) {
    PartShare& part = parts[p];
    if (p >= stages) {
      const PartShare& earlier = parts[p - stages];
      part.blocks_before = earlier.blocks_before +
          static_cast<std::int64_t>(earlier.blocks.size());
    }
    std::set<std::string> ties;
    for (int at = cuts[p]; at < cuts[p + 1]; ++at) {
      const model::Layer& layer = layers[static_cast<std::size_t>(at)];
      if (layer.type == "block") {
        part.blocks.push_back(block++);
      }
      part.head = part.head || layer.type == "head";
      part.embedding = part.embedding || layer.type == "embedding";
      if (!layer.tie.empty() && !ties.insert(layer.tie).second) {
        continue; // once in memory
      }
      const std::int64_t experts = layer.experts / run.expert;
      const std::int64_t held = layer.parameters - layer.experts + experts;
      part.parameters += static_cast<double>(held);
      part.experts += static_cast<double>(experts);
      part.in_blocks += layer.type == "block" ? static_cast<double>(held) : 0;
      std::int64_t listed = 0;
      for (const ModelParameter& each : parameters[layer.name]) {
        const std::int64_t share = share_of(each, run);
        listed += share;
        part.specs.push_back(
            {.name = each.name,
             .shape = {share},
             .expert = model::is_expert(each)});
      }
      if (listed < held) { // a tied layer's weights, which another one lists
        part.specs.push_back(
            {.name = layer.name + ".shared", .shape = {held - listed}});
      }
    }
  }
  return parts;
}

double owned_elements(
    const std::vector<const PartShare*>& parts,
    const RunLayout& run) {
  std::vector<zero::ParameterSpec> specs;
  for (const PartShare* part : parts) {
    specs.insert(specs.end(), part->specs.begin(), part->specs.end());
  }
  std::int64_t all = 0;
  for (const zero::ParameterSpec& each : specs) {
    all += each.elements();
  }
  const auto ranks = static_cast<int>(shard_ranks(run));
  const zero::Layout layout(
      std::move(specs),
      {.world = ranks,
       .expert_world = std::max(1, ranks / static_cast<int>(run.expert)),
       .bucket_elements = zero::bucket_capacity(all, all, ranks)});
  double owned = 0;
  for (const zero::Bucket& bucket : layout.buckets()) {
    owned += static_cast<double>(bucket.elements) / layout.world_of(bucket);
  }
  return owned;
}

} // namespace cairn::plan
