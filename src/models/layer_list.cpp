#include "models/layer_list.h"

#include <algorithm>

namespace cairn::models {
namespace {

bool contains(const Fields& fields, Field field) {
  return std::ranges::find(fields, field) != fields.end();
}

} // namespace

void read(Stream& stream, const Fields& fields, const Tensors& tensors) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    stream.*fields[i] = tensors.at(i);
  }
}

Tensors written(const Stream& stream, const Fields& fields) {
  Tensors tensors;
  for (const Field field : fields) {
    tensors.push_back(stream.*field);
  }
  return tensors;
}

bool LayerList::carries(Field field) const {
  return contains(carried_, field);
}

void LayerList::apply(const Change& change) {
  std::erase_if(carried_, [&](Field field) {
    return contains(change.drops, field);
  });
  carried_.insert(carried_.end(), change.adds.begin(), change.adds.end());
}

void LayerList::drop(Stream& stream, const Fields& drops, const Fields& adds) {
  for (const Field field : drops) {
    if (!contains(adds, field)) {
      stream.*field = at::Tensor();
    }
  }
}

ModelLayer pipeline_layer(StreamLayer layer) {
  ModelLayer result{std::move(static_cast<model::Layer&>(layer))};
  result.build = std::move(layer.build);
  result.forward = [forward = std::move(layer.forward),
                    takes = std::move(layer.takes),
                    gives = std::move(layer.gives)](
                       torch::nn::Module& module,
                       const Tensors& given) {
    Stream stream;
    read(stream, takes, given);
    forward(module, stream);
    return written(stream, gives);
  };
  return result;
}

} // namespace cairn::models
