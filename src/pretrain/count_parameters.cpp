#include "pretrain/count_parameters.h"

#include <cairn/checkpoint/model_parameters.h>

#include <functional>
#include <numeric>

namespace cairn::pretrain {

std::int64_t count_parameters(const checkpoints::ModelDescription& model) {
  std::int64_t sum = 0;
  for (const auto& parameter : checkpoints::model_parameters(model)) {
    sum += std::accumulate(
        parameter.shape.begin(),
        parameter.shape.end(),
        std::int64_t{1},
        std::multiplies<>());
  }
  return sum;
}

} // namespace cairn::pretrain
