#include "checkpoints/tensors/tied_names.h"

#include <c10/util/accumulate.h>

#include <cstdint>
#include <map>
#include <tuple>

namespace cairn::checkpoints {

std::vector<Tie> tied_names(const PythonValue& dict) {
  using Sizes = std::vector<std::int64_t>;
  using Place = std::tuple<std::string, std::int64_t, Sizes, Sizes>;
  std::map<Place, std::string> first;
  std::vector<Tie> ties;
  for (const auto& [name, tensor] : dict.entries()) {
    // Empty tensors share their storage without being tied.
    if (!tensor.is(PythonValue::Kind::tensor) ||
        c10::multiply_integers(tensor.stored().sizes) == 0) {
      continue;
    }
    const StoredTensor& stored = tensor.stored();
    const auto [there, is_new] = first.emplace(
        Place{stored.storage, stored.offset, stored.sizes, stored.strides},
        name.text());
    if (!is_new) {
      ties.emplace_back(name.text(), there->second);
    }
  }
  return ties;
}

} // namespace cairn::checkpoints
