#include "checkpoints/huggingface/config_reader.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace cairn::checkpoints::huggingface {

using nlohmann::json;

ConfigReader::ConfigReader(std::string_view text, std::string where)
    : where_(std::move(where)) {
  object_ = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object_.is_object()) {
    refuse("not a JSON object", std::string(text.substr(0, 40)));
  }
}

ConfigReader::ConfigReader(json object, std::string where)
    : object_(std::move(object)), where_(std::move(where)) {}

const json* ConfigReader::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigReader::refuse(std::string what, std::string values) const {
  throw CheckpointError(
      {.what = std::move(what), .where = where_, .values = std::move(values)});
}

std::optional<std::int64_t> ConfigReader::find_integer(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  // The first of several end tokens is the one that separates texts.
  if (value->is_array() && !value->empty()) {
    value = &value->front();
  }
  if (!value->is_number_integer()) {
    refuse("a whole number is wanted", key);
  }
  return value->get<std::int64_t>();
}

std::int64_t ConfigReader::integer(const char* key, std::int64_t otherwise)
    const {
  return find_integer(key).value_or(otherwise);
}

double ConfigReader::real(const char* key, double otherwise) const {
  const json* value = find(key);
  if (value == nullptr) {
    return otherwise;
  }
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    refuse("a number is wanted", key);
  }
  return value->get<double>();
}

std::vector<double> ConfigReader::reals(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) {
    return {};
  }
  const auto is_real = [](const json& each) {
    return each.is_number() && std::isfinite(each.get<double>());
  };
  if (!value->is_array() || !std::ranges::all_of(*value, is_real)) {
    refuse("a list of numbers is wanted", key);
  }
  return value->get<std::vector<double>>();
}

bool ConfigReader::boolean(const char* key, bool otherwise) const {
  const json* value = find(key);
  if (value == nullptr) {
    return otherwise;
  }
  if (!value->is_boolean()) {
    refuse("true or false is wanted", key);
  }
  return value->get<bool>();
}

std::string ConfigReader::text(const char* key, std::string otherwise) const {
  const json* value = find(key);
  if (value == nullptr) {
    return otherwise;
  }
  if (!value->is_string()) {
    refuse("a text is wanted", key);
  }
  return value->get<std::string>();
}

std::optional<ConfigReader> ConfigReader::find_object(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_object()) {
    refuse("a JSON object is wanted", key);
  }
  return ConfigReader(*value, where_ + " (" + key + ")");
}

void ConfigReader::require(const char* key, bool value) const {
  if (boolean(key, value) != value) {
    refuse(
        "a kind of model that is not supported",
        std::string(key) + (value ? " is false" : " is true"));
  }
}

} // namespace cairn::checkpoints::huggingface
