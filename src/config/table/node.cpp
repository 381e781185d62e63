#include <cairn/config/node.h>

#include "config/keys/json_tree.h"

namespace cairn::config {

const Node* Node::find(std::string_view name) const {
  if (const auto* members = as<Object>()) {
    for (const Member& member : *members) {
      if (member.name == name) {
        return &member.value;
      }
    }
  }
  return nullptr;
}

std::string shown(const Node& node, std::size_t most) {
  std::string text = to_json(node).dump();
  if (text.size() > most) {
    std::size_t cut = most;
    while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) {
      --cut; // never inside a UTF-8 sequence
    }
    text = text.substr(0, cut) + "…";
  }
  return text;
}

} // namespace cairn::config
