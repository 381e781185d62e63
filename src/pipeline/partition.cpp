#include <cairn/pipeline/partition.h>

#include "pipeline/type_pattern.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

namespace cairn::pipeline {
namespace {

constexpr std::string_view type_prefix = "type:";
constexpr double impossible = std::numeric_limits<double>::infinity();

void check_stages(std::size_t layers, int stages) {
  if (stages < 1 || layers < static_cast<std::size_t>(stages)) {
    throw ConfigError(
        {.what = "a pipeline stage needs at least one layer",
         .values = fmt::format("{} layers, {} stages", layers, stages),
         .remedy = "use fewer stages, or cut the model in more layers"});
  }
}

/// The cheapest cuts, where a stage costs cost(stage, begin, end) and `combine`
/// makes the cost of the whole from those of its stages.
template <typename Cost, typename Combine>
struct Cheapest {
  std::vector<int> cuts;
  double cost = impossible;

  Cheapest(int layers, int stages, Cost stage_cost, Combine combine) {
    // best[s][n] is the lowest cost of the first n layers on s stages.
    const auto at = [](int i) { return static_cast<std::size_t>(i); };
    std::vector<std::vector<double>> best(
        at(stages) + 1,
        std::vector<double>(at(layers) + 1, impossible));
    std::vector<std::vector<int>> begin(
        at(stages) + 1,
        std::vector<int>(at(layers) + 1));
    best[0][0] = 0;
    for (int s = 1; s <= stages; ++s) {
      for (int n = s; n <= layers - (stages - s); ++n) {
        for (int first = s - 1; first < n; ++first) {
          const double before = best[at(s) - 1][at(first)];
          const double whole = combine(before, stage_cost(s - 1, first, n));
          if (whole < best[at(s)][at(n)]) {
            best[at(s)][at(n)] = whole;
            begin[at(s)][at(n)] = first;
          }
        }
      }
    }
    cost = best[at(stages)][at(layers)];
    cuts.assign(at(stages) + 1, layers);
    for (int s = stages; s > 0; --s) {
      cuts[at(s) - 1] = begin[at(s)][at(cuts[at(s)])];
    }
  }
};

std::vector<double> matches(
    std::span<const LayerFacts> layers,
    const std::string& pattern) {
  const TypePattern wanted(pattern);
  std::vector<double> weights;
  for (const LayerFacts& layer : layers) {
    weights.push_back(wanted.found_in(layer.type) ? 1 : 0);
  }
  if (std::all_of(weights.begin(), weights.end(), [](double w) {
        return w == 0;
      })) {
    throw ConfigError(
        {.what = "no layer's type matches",
         .where = fmt::format("partition method type:{}", pattern),
         .values = layers.empty()
             ? ""
             : fmt::format("the first layer is a {}", layers.front().type)});
  }
  return weights;
}

/// The most even cuts among those whose stages are all `allowed`, which is
/// asked with a stage and the layers [begin, end) on it.
template <typename Allowed>
std::vector<int> balanced(
    std::span<const double> weights,
    int stages,
    const Allowed& allowed) {
  check_stages(weights.size(), stages);
  std::vector<double> sums{0};
  for (const double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight)) {
      throw ConfigError(
          {.what = "a layer's weight must be a number from 0 on",
           .values = fmt::format("{}", weight)});
    }
    sums.push_back(sums.back() + weight);
  }
  const int layers = static_cast<int>(weights.size());
  const auto weight = [&](int stage, int begin, int end) {
    return allowed(stage, begin, end) ? sums[static_cast<std::size_t>(end)] -
            sums[static_cast<std::size_t>(begin)]
                                      : impossible;
  };
  const double heaviest =
      Cheapest(layers, stages, weight, [](double a, double b) {
        return std::max(a, b);
      }).cost;
  // Weights are in units of the heaviest stage, so that squares stay in range.
  const double unit = heaviest > 0 ? heaviest : 1;
  const auto square = [&](int stage, int begin, int end) {
    const double own = weight(stage, begin, end);
    const double share = own / unit;
    return own > heaviest ? impossible : share * share;
  };
  return Cheapest(
             layers,
             stages,
             square,
             [](double a, double b) { return a + b; })
      .cuts;
}

/// Throws ConfigError for cuts that are not those of such a partition.
void check_cuts(const std::vector<int>& cuts, std::size_t layers, int stages) {
  bool fits = cuts.size() == static_cast<std::size_t>(stages) + 1 &&
      cuts.front() == 0 && cuts.back() == static_cast<int>(layers);
  for (std::size_t i = 1; fits && i < cuts.size(); ++i) {
    fits = cuts[i - 1] < cuts[i];
  }
  if (!fits) {
    throw ConfigError(
        {.what = "cuts that do not give every stage some layers",
         .values = fmt::format("{} layers, {} stages", layers, stages)});
  }
}

} // namespace

PartitionMethod PartitionMethod::parse(std::string_view text) {
  if (text == "uniform") {
    return {.kind = Kind::uniform};
  }
  if (text == "parameters" || text == "best") {
    return {.kind = Kind::parameters};
  }
  if (text.starts_with(type_prefix)) {
    PartitionMethod method{
        .kind = Kind::type,
        .pattern = std::string(text.substr(type_prefix.size()))};
    (void)TypePattern(method.pattern); // throws if it is none
    return method;
  }
  throw ConfigError(
      {.what = fmt::format("no way to share out layers: \"{}\"", text),
       .remedy =
           "use \"best\", \"uniform\", \"parameters\" or \"type:REGEX\""});
}

PartitionMethod by_work(std::span<const LayerFacts> layers, bool equal_blocks) {
  const auto passed = [](const LayerFacts& layer) {
    return layer.parameters - layer.idle;
  };
  PartitionMethod method{.kind = PartitionMethod::Kind::weights};
  std::optional<std::size_t> last_block;
  double heads = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool block = layers[i].type == "block";
    method.weights.push_back(block ? 1 : 0);
    last_block = block ? i : last_block;
    heads += layers[i].type == "head" ? passed(layers[i]) : 0;
  }
  if (last_block) {
    constexpr double decides_ties = 1e-3;
    const double block = std::max(1.0, passed(layers[*last_block]));
    method.weights[*last_block] += equal_blocks ? decides_ties : heads / block;
  }
  return method;
}

std::vector<int> partition(
    std::span<const LayerFacts> layers,
    int stages,
    const PartitionMethod& method) {
  check_stages(layers.size(), stages);
  std::vector<double> weights;
  switch (method.kind) {
    case PartitionMethod::Kind::uniform:
      return partition_uniform(static_cast<int>(layers.size()), stages);
    case PartitionMethod::Kind::parameters:
      for (const LayerFacts& layer : layers) {
        weights.push_back(layer.parameters);
      }
      break;
    case PartitionMethod::Kind::type:
      weights = matches(layers, method.pattern);
      break;
    case PartitionMethod::Kind::weights:
      weights = method.weights;
      break;
    case PartitionMethod::Kind::cuts:
      check_cuts(method.cuts, layers.size(), stages);
      return method.cuts;
  }
  if (weights.size() != layers.size()) {
    throw ConfigError(
        {.what = "a partition needs one weight for each layer",
         .values = fmt::format(
             "{} weights, {} layers",
             weights.size(),
             layers.size())});
  }
  return partition_balanced(weights, stages);
}

std::vector<int> partition_uniform(int layers, int stages) {
  check_stages(static_cast<std::size_t>(std::max(layers, 0)), stages);
  std::vector<int> cuts;
  for (int stage = 0; stage <= stages; ++stage) {
    cuts.push_back(
        stage * (layers / stages) + std::min(stage, layers % stages));
  }
  return cuts;
}

std::vector<int> partition_balanced(
    std::span<const double> weights,
    int stages) {
  return balanced(weights, stages, [](int, int, int) { return true; });
}

std::vector<int> partition_within(
    std::span<const double> weights,
    std::span<const StageLoad> loads,
    std::span<const int> reference) {
  const int stages = static_cast<int>(reference.size()) - 1;
  const auto bytes = [&](int stage, int begin, int end) {
    double sum = 0;
    for (int i = begin; i < end; ++i) {
      const StageLoad& load = loads[static_cast<std::size_t>(i)];
      sum += load.states + load.activations * (stages - stage);
    }
    return sum;
  };
  double most = 0;
  for (int s = 0; s < stages; ++s) {
    const auto at = static_cast<std::size_t>(s);
    most = std::max(most, bytes(s, reference[at], reference[at + 1]));
  }
  return balanced(weights, stages, [&](int stage, int begin, int end) {
    return bytes(stage, begin, end) <= most;
  });
}

} // namespace cairn::pipeline
