#include "config/keys/json_tree.h"

#include "config/internal/hjson.h"

namespace cairn::config {
namespace {

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const Node::Array& elements) const {
    Json array = Json::array();
    for (const Node& element : elements) {
      array.push_back(to_json(element));
    }
    return array;
  }
  Json operator()(const Node::Object& members) const {
    Json object = Json::object();
    for (const Member& member : members) {
      object[member.name] = to_json(member.value);
    }
    return object;
  }
  template <typename T>
  Json operator()(const T& scalar) const {
    return scalar;
  }
};

} // namespace

Json to_json(const Node& node) {
  return std::visit(ToJson{}, node.value);
}

std::string plain_json(const Node& node) {
  return to_json(node).dump();
}

} // namespace cairn::config
