#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::launch {

/// A YAML document as a value, so that indentation and quoting cannot go wrong.
struct Yaml {
  using List = std::vector<Yaml>;
  using Map = std::vector<std::pair<std::string, Yaml>>; ///< keeps this order

  std::variant<std::string, std::int64_t, bool, List, Map> value;

  Yaml(std::string text) : value(std::move(text)) {}
  Yaml(std::string_view text) : value(std::string(text)) {}
  Yaml(const char* text) : value(std::string(text)) {}
  Yaml(int number) : value(std::int64_t{number}) {}
  Yaml(bool flag) : value(flag) {}
  Yaml(List list) : value(std::move(list)) {}
  Yaml(Map map) : value(std::move(map)) {}
};

/// The document in block style. Strings are quoted unless they are plain words.
/// Throws ConfigError for a string that is not UTF-8, which YAML cannot hold.
std::string to_yaml(const Yaml& document);

} // namespace cairn::launch
