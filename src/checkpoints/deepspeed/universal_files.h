#pragma once

#include <cairn/checkpoints/lazy_tensor.h>

#include <filesystem>
#include <map>
#include <string>

// Files of DeepSpeed's universal checkpoints, which ds_to_universal.py makes:
// zero/NAME/{fp32,exp_avg,exp_avg_sq,step}.pt, a folder for each parameter, and
// the model-parallel ranks' mp_rank_00_model_states.pt.

namespace cairn::checkpoints::deepspeed {

/// True for the folder of such a checkpoint.
bool is_universal(const std::filesystem::path& folder);

/// The folders of all parameters, by their names. Throws CheckpointError if
/// there are none.
std::map<std::string, std::filesystem::path> universal_parameters(
    const std::filesystem::path& folder);

/// The files of a parameter by the kind of state: "fp32", "exp_avg", …
std::map<std::string, std::filesystem::path> universal_states(
    const std::filesystem::path& parameter);

/// The file of the first model-parallel rank.
std::filesystem::path universal_model_file(const std::filesystem::path& folder);

/// The tensor in a file such as fp32.pt.
LazyTensor universal_tensor(const std::filesystem::path& file);

} // namespace cairn::checkpoints::deepspeed
