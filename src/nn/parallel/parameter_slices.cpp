#include <cairn/nn/parameter_slices.h>

#include <torch/nn/module.h>

#include <functional>

namespace cairn::nn {
namespace {

void visit_slice_holders(
    const torch::nn::Module& module,
    const std::function<void(const std::string&, const HoldsSlices&)>& visit,
    const std::string& prefix = "") {
  if (const auto* holder = dynamic_cast<const HoldsSlices*>(&module)) {
    visit(prefix, *holder);
  }
  for (const auto& child : module.named_children()) {
    visit_slice_holders(*child.value(), visit, prefix + child.key() + ".");
  }
}

std::vector<std::string> full_names(
    const torch::nn::Module& module,
    std::vector<std::string> (HoldsSlices::*names)() const) {
  std::vector<std::string> all;
  visit_slice_holders(
      module,
      [&](const std::string& prefix, const HoldsSlices& holder) {
        for (const std::string& name : (holder.*names)()) {
          all.push_back(prefix + name);
        }
      });
  return all;
}

} // namespace

std::vector<ParameterSlice> parameter_slices(const torch::nn::Module& module) {
  std::vector<ParameterSlice> all;
  visit_slice_holders(
      module,
      [&](const std::string& prefix, const HoldsSlices& holder) {
        for (ParameterSlice slice : holder.parameter_slices()) {
          slice.name.insert(0, prefix);
          all.push_back(std::move(slice));
        }
      });
  return all;
}

std::vector<std::string> partial_gradients(const torch::nn::Module& module) {
  return full_names(module, &HoldsSlices::partial_gradients);
}

std::vector<std::string> expert_parameters(const torch::nn::Module& module) {
  return full_names(module, &HoldsSlices::expert_parameters);
}

} // namespace cairn::nn
