#pragma once

#include <cairn/model/description.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::pretrain {

struct ModelDifference {
  std::string text; ///< "layers 4 there, 3 here"
  std::vector<std::string_view>
      flags{}; ///< that say it, or what else to look at
};

/// Where a checkpoint's model is another than the flags describe; but for a
/// larger vocabulary, and what does not change the meaning of weights.
std::vector<ModelDifference> model_differences(
    const model::ModelDescription& stored,
    const model::ModelDescription& described);

/// Throws ConfigError, with the flags to look at, if there is any. `place`:
/// what --load names.
void refuse_differences(
    const std::string& place,
    const std::vector<ModelDifference>& differences);

} // namespace cairn::pretrain
