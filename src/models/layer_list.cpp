#include "models/layer_list.h"

#include <algorithm>

namespace cairn::models {

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
  return std::ranges::find(carried_, field) != carried_.end();
}

void LayerList::apply(const Change& change) {
  std::erase_if(carried_, [&](Field field) {
    return std::ranges::find(change.drops, field) != change.drops.end();
  });
  carried_.insert(carried_.end(), change.adds.begin(), change.adds.end());
}

} // namespace cairn::models
