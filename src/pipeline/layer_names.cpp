#include "pipeline/layer_names.h"

#include <c10/util/Exception.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

namespace cairn::pipeline {
namespace {

/// Holds the layers whose names begin alike.
struct LayerFolder : torch::nn::Module {
  using torch::nn::Module::Module;
};

/// A folder, or a layer that holds other layers, as "embedding" holds
/// "embedding.word".
torch::nn::Module& parent_in(
    torch::nn::Module& parent,
    const std::string& name) {
  const auto children = parent.named_children();
  if (const auto* found = children.find(name)) {
    return **found;
  }
  return *parent.register_module(name, std::make_shared<LayerFolder>(name));
}

void merge(torch::nn::Module& root, const torch::nn::Module& layer) {
  for (const auto& item : layer.named_parameters(/*recurse=*/false)) {
    root.register_parameter(
        item.key(),
        item.value(),
        item.value().requires_grad());
  }
  for (const auto& item : layer.named_buffers(/*recurse=*/false)) {
    root.register_buffer(item.key(), item.value());
  }
  for (const auto& item : layer.named_children()) {
    root.register_module(item.key(), item.value());
  }
}

void place(
    torch::nn::Module& parent,
    const std::string& name,
    const std::shared_ptr<torch::nn::Module>& layer) {
  const auto children = parent.named_children();
  const auto* found = children.find(name);
  if (found == nullptr || dynamic_cast<LayerFolder*>(found->get()) == nullptr) {
    parent.register_module(name, layer);
    return;
  }
  for (const auto& inside : (*found)->named_children()) {
    layer->register_module(inside.key(), inside.value());
  }
  parent.replace_module(name, layer);
}

} // namespace

void register_layer(
    torch::nn::Module& root,
    const std::string& name,
    const std::shared_ptr<torch::nn::Module>& layer) {
  try {
    if (name.empty()) {
      merge(root, *layer);
      return;
    }
    torch::nn::Module* parent = &root;
    std::size_t begin = 0;
    for (std::size_t dot = name.find('.'); dot != std::string::npos;
         dot = name.find('.', begin)) {
      parent = &parent_in(*parent, name.substr(begin, dot - begin));
      begin = dot + 1;
    }
    place(*parent, name.substr(begin), layer);
  } catch (const c10::Error& error) {
    throw UsageError(
        {.what = "a layer's name does not do",
         .where = fmt::format("layer \"{}\"", name),
         .values = error.what_without_backtrace(),
         .remedy = "give every layer a name of its own"});
  }
}

} // namespace cairn::pipeline
