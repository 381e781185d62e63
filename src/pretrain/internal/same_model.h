#pragma once

#include <cairn/model/description.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::pretrain {

struct ModelDifference {
  std::string text;                      ///< "layers 4 there, 3 here"
  std::vector<std::string_view> flags{}; ///< flags that set the differing value
};

/// The differences between a checkpoint's model and the one that the flags
/// describe. A larger vocabulary is none, nor is anything that does not change
/// the meaning of weights.
std::vector<ModelDifference> model_differences(
    const model::ModelDescription& stored,
    const model::ModelDescription& described);

/// Throws ConfigError, with the flags to look at, if there are differences.
/// `place`: the checkpoint that --load names.
void refuse_differences(
    const std::string& place,
    const std::vector<ModelDifference>& differences);

} // namespace cairn::pretrain
