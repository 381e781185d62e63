#include "config/keys/key.h"

#include "config/keys/json_tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace cairn::config {
namespace {

struct KeyTable {
  std::vector<Key> rows;
  std::map<std::string, std::size_t, std::less<>> by_path;
};

KeyTable make_key_table() {
  KeyTable table;
  const std::span<const Key> rows = key_rows();
  table.rows.assign(rows.begin(), rows.end());
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    Key& row = table.rows[i];
    table.by_path.emplace(row.name, i);
    for (const std::string_view alias : words_in(row.aliases)) {
      table.by_path.emplace(join_path(row.parent(), alias), i);
    }
    const auto section = table.by_path.find(row.parent());
    row.rules.bool_is_number = section != table.by_path.end() &&
        table.rows[section->second].validated && !row.strict;
  }
  return table;
}

const KeyTable& all_keys() {
  static const KeyTable table = make_key_table(); // constant data, built once
  return table;
}

} // namespace

std::string join_path(std::string_view parent, std::string_view name) {
  return parent.empty() ? std::string(name)
                        : fmt::format("{}.{}", parent, name);
}

std::string_view Key::parent() const {
  const std::size_t dot = name.rfind('.');
  return dot == name.npos ? std::string_view() : name.substr(0, dot);
}

std::string_view Key::last_name() const {
  const std::size_t dot = name.rfind('.');
  return dot == name.npos ? name : name.substr(dot + 1);
}

const std::vector<Key>& key_table() {
  return all_keys().rows;
}

const Key* find_key(std::string_view path) {
  const KeyTable& table = all_keys();
  const auto found = table.by_path.find(path);
  if (found != table.by_path.end()) {
    return &table.rows[found->second];
  }
  // An alias may also stand for a section on the way ("bfloat16.enabled").
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) {
    return nullptr;
  }
  const Key* section = find_key(path.substr(0, dot));
  if (section == nullptr || section->name == path.substr(0, dot)) {
    return nullptr;
  }
  return find_key(join_path(section->name, path.substr(dot + 1)));
}

std::vector<std::string_view> names_in(std::string_view section) {
  std::vector<std::string_view> names;
  for (const Key& row : key_table()) {
    if (row.parent() == section) {
      names.push_back(row.last_name());
      const auto aliases = words_in(row.aliases);
      names.insert(names.end(), aliases.begin(), aliases.end());
    }
  }
  return names;
}

Json default_value(const Key& key) {
  DeepSpeedConfig config;
  for (const Key& row : key_table()) {
    if (row.open != nullptr) {
      row.open(config);
    }
  }
  return key.binding.get(config);
}

std::string default_text(const Key& key) {
  if (!key.default_words.empty()) {
    return std::string(key.default_words);
  }
  if (key.kind != Key::Kind::value) {
    return key.kind == Key::Kind::section ? "{}" : "-";
  }
  return default_value(key).dump();
}

std::string type_text(const Key& key) {
  if (key.kind != Key::Kind::value) {
    return key.kind == Key::Kind::section ? "section" : "-";
  }
  if (!key.rules.choices.empty()) {
    return choice_words(words_in(key.rules.choices));
  }
  std::string words = key.binding.type();
  if (const std::string range = range_text(key.rules); !range.empty()) {
    words += ", " + range;
  }
  return words;
}

} // namespace cairn::config
