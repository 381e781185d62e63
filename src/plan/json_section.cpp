#include "plan/json_section.h"

#include "base/internal/edit_distance.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace cairn::plan {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) {
  constexpr std::size_t most = 40;
  return value.dump().substr(0, most);
}

} // namespace

JsonSection::JsonSection(const Json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) {
    throw ConfigError({.what = "is no JSON object", .where = where_});
  }
}

const Json& JsonSection::value(const char* key) {
  known_.emplace_back(key);
  const auto found = object_.find(key);
  if (found == object_.end()) {
    throw ConfigError(
        {.what = fmt::format("the key \"{}\" is missing", key),
         .where = where_,
         .remedy = "recipes/clusters/README.md lists the keys"});
  }
  return *found;
}

double JsonSection::number(const char* key, double least, double most) {
  const Json& found = value(key);
  const double given = found.is_number() ? found.get<double>() : std::nan("");
  if (!(given >= least && given <= most)) {
    throw ConfigError(
        {.what = fmt::format("is no number from {} to {}", least, most),
         .where = at(key),
         .values = shown(found)});
  }
  return given;
}

double JsonSection::number_or(
    const char* key,
    double least,
    double most,
    double other) {
  known_.emplace_back(key);
  return has(key) ? number(key, least, most) : other;
}

std::int64_t JsonSection::count(
    const char* key,
    std::int64_t least,
    std::int64_t most) {
  const double given =
      number(key, static_cast<double>(least), static_cast<double>(most));
  if (given != std::floor(given)) {
    throw ConfigError(
        {.what = "is no whole number",
         .where = at(key),
         .values = fmt::format("{}", given)});
  }
  return static_cast<std::int64_t>(given);
}

bool JsonSection::flag_or(const char* key, bool other) {
  known_.emplace_back(key);
  if (!has(key)) {
    return other;
  }
  const Json& found = value(key);
  if (!found.is_boolean()) {
    throw ConfigError(
        {.what = "is neither true nor false",
         .where = at(key),
         .values = shown(found)});
  }
  return found.get<bool>();
}

std::string JsonSection::text(const char* key) {
  const Json& found = value(key);
  if (!found.is_string()) {
    throw ConfigError({.what = "is no text", .where = at(key)});
  }
  return found.get<std::string>();
}

void JsonSection::refuse_others() const {
  for (const auto& [key, unused] : object_.items()) {
    if (std::ranges::find(known_, key) == known_.end()) {
      std::vector<std::string_view> names(known_.begin(), known_.end());
      const auto closest = nearest(key, names);
      throw ConfigError(
          {.what = fmt::format("unknown key \"{}\"", key),
           .where = where_,
           .remedy = closest ? fmt::format("did you mean \"{}\"?", *closest)
                             : "remove it"});
    }
  }
}

} // namespace cairn::plan
