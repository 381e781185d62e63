#pragma once

#include "checkpoints/megatron/rank_tensors.h"

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/python_value.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoints::megatron {

/// The kind of the fp32 copies of the parameters, among the kinds of states.
inline constexpr const char* master_kind = "master";

/// The states of Adam that a checkpoint holds, under Megatron's names.
struct OptimizerContents {
  /// "exp_avg", "exp_avg_sq" and, for parameters in 16 bits, `master_kind`:
  /// tensors like the parameters, of each tensor rank.
  std::map<std::string, std::vector<RankTensors>> states;
  std::int64_t steps = 0;
  std::vector<PythonValue> groups; ///< dicts of options
  PythonValue loss_scaler;         ///< under DeepSpeed's names; or None
  bool cut = false; ///< true when states were put together of flat parts
  /// Why the states are not read; empty if they are.
  std::string unread;
};

/// The states of the files of all ranks: of Megatron's optimizers in fp32 and
/// 16 bits, and of its distributed optimizer.
OptimizerContents read_rank_optimizer(const Contents& contents);

/// The states of a folder of the format "torch_dist".
OptimizerContents read_torch_dist_optimizer(
    const std::filesystem::path& folder,
    const Contents& contents);

/// The states of DeepSpeed's ZeRO, of a pipeline's ranks.
OptimizerContents read_layer_optimizer(
    const std::filesystem::path& folder,
    const Contents& contents);

/// The states in a universal checkpoint.
OptimizerContents read_universal_optimizer(
    const std::filesystem::path& folder,
    const Contents& contents);

/// The place where the next parameter begins in a flat buffer whose last one
/// ends there.
std::int64_t flat_beginning(std::int64_t end);

/// Gives tensors of flat buffers their names: the parameters lie from the last
/// to the first, each at a multiple of 64 elements. `buffers` are the buckets
/// of one kind, `sizes` their numbers of elements without padding. Returns
/// false if the parameters do not fill the buckets.
bool add_flat(
    const std::vector<OrderedParameter>& order,
    const std::vector<LazyTensor>& buffers,
    const std::vector<std::int64_t>& sizes,
    const std::filesystem::path& file,
    RankTensors& rank);

/// True when the small ones among the copies are the parameters, more exact.
/// It shows that nameless numbers got the right names.
bool rounds_to(const RankTensors& masters, const RankTensors& parameters);

/// The loss scaler of Megatron's 16-bit optimizers, under DeepSpeed's names;
/// None if the optimizer has none that changes.
PythonValue loss_scaler_of(const PythonValue& optimizer);

/// The number in a step, which may be a number or a tensor; 0 if it is neither.
std::int64_t step_in(const std::optional<PythonValue>& value);

} // namespace cairn::checkpoints::megatron
