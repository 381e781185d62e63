#include "engine/save/client_state_json.h"

#include "base/internal/utf8.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <cmath>
#include <utility>

namespace cairn::inline engine {

namespace {

using nlohmann::json;

constexpr const char* tensor_key = "$tensor";
constexpr const char* bytes_key = "$bytes";
constexpr const char* real_key = "$real";
constexpr int deepest = 100;

class Writer {
 public:
  Writer(std::string prefix, checkpoints::Sink& sink)
      : prefix_(std::move(prefix)), sink_(sink) {}

  json operator()(bool value) { return value; }
  json operator()(std::int64_t value) { return value; }
  json operator()(double value) {
    return std::isfinite(value) ? json(value)
                                : json{{real_key, fmt::format("{}", value)}};
  }
  json operator()(const std::string& value) {
    if (valid_utf8_end(value) == value.size()) {
      return value;
    }
    std::string digits;
    for (const char c : value) {
      digits += fmt::format("{:02x}", static_cast<unsigned char>(c));
    }
    return {{bytes_key, digits}};
  }
  json operator()(const at::Tensor& value) {
    std::string name = fmt::format("{}/{}", prefix_, tensors_++);
    sink_.put(
        {.name = name,
         .shape = value.sizes().vec(),
         .values = value.detach().cpu().contiguous().view({-1})});
    return {{tensor_key, std::move(name)}};
  }
  json operator()(const std::vector<ClientValue>& values) {
    json result = json::array();
    for (const ClientValue& value : values) {
      result.push_back(std::visit(*this, value));
    }
    return result;
  }
  json operator()(const ClientState& members) {
    json result = json::object();
    for (const auto& [name, value] : members) {
      result[name.starts_with('$') ? "$" + name : name] =
          std::visit(*this, value);
    }
    return result;
  }

 private:
  std::string prefix_;
  checkpoints::Sink& sink_;
  int tensors_ = 0;
};

std::string bytes_from(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    int byte = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

double real_from(const std::string& text) {
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "inf" ? infinity
      : text == "-inf" ? -infinity
                       : std::numeric_limits<double>::quiet_NaN();
}

ClientState members_from(
    const json& saved,
    const checkpoints::Source& source,
    int depth);

ClientValue value_from(
    const json& saved,
    const checkpoints::Source& source,
    int depth) {
  if (depth > deepest) {
    throw CheckpointError({.what = "a client state of too great a depth"});
  }
  if (saved.is_boolean()) {
    return saved.get<bool>();
  }
  if (saved.is_number_integer()) {
    return saved.get<std::int64_t>();
  }
  if (saved.is_number()) {
    return saved.get<double>();
  }
  if (saved.is_string()) {
    return saved.get<std::string>();
  }
  if (saved.is_array()) {
    std::vector<ClientValue> values;
    for (const json& value : saved) {
      values.push_back(value_from(value, source, depth + 1));
    }
    return values;
  }
  if (saved.contains(tensor_key)) {
    const std::string name = saved.at(tensor_key).get<std::string>();
    at::Tensor tensor = at::empty(source.shape(name), source.type(name));
    at::Tensor flat = tensor.view({-1});
    source.read(name, 0, flat);
    return tensor;
  }
  if (saved.contains(bytes_key)) {
    return bytes_from(saved.at(bytes_key).get<std::string>());
  }
  if (saved.contains(real_key)) {
    return real_from(saved.at(real_key).get<std::string>());
  }
  return members_from(saved, source, depth + 1);
}

ClientState members_from(
    const json& saved,
    const checkpoints::Source& source,
    int depth) {
  ClientState state;
  for (const auto& [name, value] : saved.items()) {
    state[name.starts_with('$') ? name.substr(1) : name] =
        value_from(value, source, depth);
  }
  return state;
}

} // namespace

json to_json(
    const ClientState& state,
    const std::string& prefix,
    checkpoints::Sink& sink) {
  return Writer(prefix, sink)(state);
}

ClientState client_state_from(
    const json& saved,
    const checkpoints::Source& source) {
  return members_from(saved, source, 0);
}

} // namespace cairn::engine
