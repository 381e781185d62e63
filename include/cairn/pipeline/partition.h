#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::pipeline {

/// The rule for dividing layers among stages.
struct PartitionMethod {
  enum class Kind {
    uniform,    ///< the same number of layers each
    parameters, ///< as even in parameters as possible
    type,       ///< as even as possible in layers whose type matches `pattern`
    weights,    ///< as even as possible in `weights`, one for each layer
    cuts        ///< at `cuts`
  };
  Kind kind = Kind::parameters;
  std::string pattern{}; ///< a regular expression, found anywhere, in any case
  std::vector<double> weights{};
  std::vector<int> cuts{}; ///< as partition() gives them

  /// Reads DeepSpeed's names: "uniform", "parameters" (or "best"),
  /// "type:REGEX". Throws ConfigError.
  static PartitionMethod parse(std::string_view text);
};

/// The facts about a layer that decide a partition.
struct LayerFacts {
  std::string type{};
  double parameters = 0;
  double idle = 0; ///< … of them that a token passes by: experts
};

/// A method that makes the work of the stages as even as possible. Layers of
/// the type "block" weigh one each. Layers of the type "head" weigh as many
/// blocks as have the same number of parameters, idle ones not counted. Other
/// layers weigh nothing.
/// `equal_blocks` lets heads decide only where blocks are left over. The weight
/// of heads is put on the last block, so that no stage has heads alone.
PartitionMethod by_work(std::span<const LayerFacts> layers, bool equal_blocks);

/// The cuts: stage s has the layers from cuts[s] up to cuts[s + 1], at least
/// one. The cuts are the same on every rank. Throws ConfigError if there are
/// fewer layers than stages, or if no layer matches.
std::vector<int> partition(
    std::span<const LayerFacts> layers,
    int stages,
    const PartitionMethod& method);

/// Cuts into equal numbers of layers. The first stages get one more if the
/// numbers do not come out even.
std::vector<int> partition_uniform(int layers, int stages);
/// Cuts so that the heaviest stage is as light as possible and, among those
/// cuts, the stages are as even as possible.
std::vector<int> partition_balanced(
    std::span<const double> weights,
    int stages);

/// The memory that a layer takes on its stage, in bytes.
struct StageLoad {
  double states = 0;
  double activations = 0; ///< of one micro batch, kept for its backward
};

/// partition_balanced() among the cuts with which no stage needs more memory
/// than the fullest one does with the cuts of `reference`. Of n stages in 1F1B,
/// stage s keeps the activations of n - s micro batches.
std::vector<int> partition_within(
    std::span<const double> weights,
    std::span<const StageLoad> loads,
    std::span<const int> reference);

} // namespace cairn::pipeline
