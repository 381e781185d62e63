#include <cairn/engine/optimizer.h>

#include "engine/build/model_parameters.h"

#include <cairn/optim/parameter_groups.h>

namespace cairn::inline engine {

std::vector<ParameterGroup> no_decay_groups(const torch::nn::Module& module) {
  const ModelParameters parameters = engine::parameters_of(module);
  const optim::GroupRule rule = optim::no_decay_rule();
  std::vector<ParameterGroup> groups(2);
  groups[1].values = rule.patch;
  for (std::size_t i = 0; i < parameters.tensors.size(); ++i) {
    const bool without =
        rule.takes({parameters.names[i], parameters.tensors[i].sizes().vec()});
    groups[without ? 1 : 0].parameters.push_back(parameters.tensors[i]);
  }
  return groups;
}

} // namespace cairn::engine
