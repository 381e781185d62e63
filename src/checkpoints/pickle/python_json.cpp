#include "checkpoints/pickle/python_json.h"

#include "base/internal/utf8.h"

#include <cmath>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

namespace {

using nlohmann::json;
using Kind = PythonValue::Kind;

// Limits, because a value may contain itself, or one list a thousand times.
constexpr int deepest_object = 50;
constexpr int most_values = 100'000;

std::optional<json> text_json(const std::string& text) {
  return valid_utf8_end(text) == text.size() ? std::optional(json(text))
                                             : std::nullopt;
}

std::optional<json> convert(const PythonValue& value, int depth, int& left) {
  if (depth > deepest_object || --left < 0) {
    return std::nullopt;
  }
  switch (value.kind()) {
    case Kind::none:
      return json();
    case Kind::boolean:
      return json(value.boolean());
    case Kind::integer:
      return json(value.integer());
    case Kind::real:
      return std::isfinite(value.real()) ? std::optional(json(value.real()))
                                         : std::nullopt;
    case Kind::text:
      return text_json(value.text());
    case Kind::list:
    case Kind::tuple: {
      json items = json::array();
      for (const PythonValue& item : value.items()) {
        auto converted = convert(item, depth + 1, left);
        if (!converted) {
          return std::nullopt;
        }
        items.push_back(std::move(*converted));
      }
      return items;
    }
    case Kind::dict: {
      json members = json::object();
      for (const auto& [key, item] : value.entries()) {
        const auto name =
            key.is(Kind::text) ? text_json(key.text()) : std::nullopt;
        auto converted = name ? convert(item, depth + 1, left) : std::nullopt;
        if (!converted) {
          return std::nullopt;
        }
        members[name->get<std::string>()] = std::move(*converted);
      }
      return members;
    }
    default:
      return std::nullopt;
  }
}

} // namespace

std::optional<json> json_of(const PythonValue& value) {
  int left = most_values;
  return convert(value, 0, left);
}

PythonValue python_of(const json& value) {
  if (value.is_boolean()) {
    return PythonValue::boolean(value.get<bool>());
  }
  if (value.is_number_integer()) {
    return PythonValue::integer(value.get<std::int64_t>());
  }
  if (value.is_number()) {
    return PythonValue::real(value.get<double>());
  }
  if (value.is_string()) {
    return PythonValue::text(value.get<std::string>());
  }
  if (value.is_array()) {
    std::vector<PythonValue> items;
    for (const json& item : value) {
      items.push_back(python_of(item));
    }
    return PythonValue::list(std::move(items));
  }
  if (value.is_object()) {
    std::vector<PythonValue::Member> members;
    for (const auto& [name, item] : value.items()) {
      members.emplace_back(name, python_of(item));
    }
    return PythonValue::dict_of(std::move(members));
  }
  return {};
}

} // namespace cairn::checkpoints
