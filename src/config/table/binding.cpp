#include "config/table/binding.h"

#include <cairn/config/deepspeed_config.h>
#include <cairn/config/flags.h>
#include "config/keys/json_tree.h"

namespace cairn::config {

template <typename Root>
void Binding<Root>::set(
    Root& root,
    const Node& node,
    const Place& place,
    const Rules& rules) const {
  value->read(reach(root), node, place, rules);
}

template <typename Root>
Json Binding<Root>::get(const Root& root) const {
  const void* found = find(root);
  return found == nullptr ? Json(nullptr) : value->write(found);
}

template <typename Root>
std::string Binding<Root>::type() const {
  return value->words();
}

template struct Binding<Flags>;
template struct Binding<DeepSpeedConfig>;

} // namespace cairn::config
