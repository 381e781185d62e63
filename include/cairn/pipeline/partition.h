#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::pipeline {

/// How layers are shared out among stages.
struct PartitionMethod {
  enum class Kind {
    uniform,    ///< the same number of layers each
    parameters, ///< as even in parameters as can be
    type,       ///< … in layers whose type matches `pattern`
    weights     ///< … in the given `weights`, one for each layer
  };
  Kind kind = Kind::parameters;
  std::string pattern{}; ///< a regular expression, found anywhere, in any case
  std::vector<double> weights{};

  /// DeepSpeed's names: "uniform", "parameters" (or "best"), "type:REGEX".
  /// Throws ConfigError.
  static PartitionMethod parse(std::string_view text);
};

/// What a partition looks at in a layer.
struct LayerFacts {
  std::string type{};
  double parameters = 0;
};

/// As even in work as can be: layers of the type "block" weigh one each, those
/// of the type "head" as many as have their parameters, others nothing.
/// `equal_blocks`: heads only decide where blocks are left over. Heads weigh on
/// the last block, so that no stage has heads alone.
PartitionMethod by_work(std::span<const LayerFacts> layers, bool equal_blocks);

/// Where to cut: stage s has the layers from cuts[s] up to cuts[s + 1], at
/// least one. The same on every rank. Throws ConfigError if there are fewer
/// layers than stages, or no layer matches.
std::vector<int> partition(
    std::span<const LayerFacts> layers,
    int stages,
    const PartitionMethod& method);

/// The first stages get one more if it does not come out even.
std::vector<int> partition_uniform(int layers, int stages);
/// The heaviest stage is as light as it can be, and among those cuts the stages
/// are as even as they can be.
std::vector<int> partition_balanced(
    std::span<const double> weights,
    int stages);

} // namespace cairn::pipeline
