#include "config/key.h"

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
  add_batch_keys(table.rows);
  add_optimizer_keys(table.rows);
  add_precision_keys(table.rows);
  add_zero_keys(table.rows);
  add_training_keys(table.rows);
  add_monitor_keys(table.rows);
  add_scaling_keys(table.rows);
  add_unsupported_keys(table.rows);
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const Key& row = table.rows[i];
    table.by_path.emplace(row.path, i);
    for (const Alias& alias : row.aliases) {
      table.by_path.emplace(join_path(row.parent(), alias.name), i);
    }
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
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? std::string_view{}
                                  : std::string_view(path).substr(0, dot);
}

std::string_view Key::name() const {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? std::string_view(path)
                                  : std::string_view(path).substr(dot + 1);
}

Key& Key::at_least(double bound) {
  rules.least = bound;
  return *this;
}

Key& Key::above(double bound) {
  rules.least = bound;
  rules.least_excluded = true;
  return *this;
}

Key& Key::at_most(double bound) {
  rules.most = bound;
  return *this;
}

Key& Key::one_of(std::vector<std::string> choices) {
  rules.choices = std::move(choices);
  return *this;
}

Key& Key::also(std::string name, std::string warning) {
  aliases.push_back({std::move(name), std::move(warning)});
  return *this;
}

Key& Key::by_default(std::string words) {
  default_words = std::move(words);
  return *this;
}

Key& Key::used_by(std::vector<std::string> types) {
  only_for = std::move(types);
  return *this;
}

Key& Key::refused(std::string reason) {
  support = {Support::Kind::refused, std::move(reason)};
  return *this;
}

Key& Key::without_effect(std::string reason) {
  support = {Support::Kind::without_effect, std::move(reason)};
  return *this;
}

KeySection::KeySection(
    std::vector<Key>& table,
    const std::string& path,
    std::string help)
    : table_(table), path_(path) {
  Key& row = table_.emplace_back();
  row.path = path;
  row.help = std::move(help);
  row.kind = Key::Kind::section;
}

Key& KeySection::add(
    const std::string& name,
    std::string help,
    Binding<DeepSpeedConfig> binding,
    Key::Kind kind) {
  Key& row = table_.emplace_back();
  row.path = join_path(path_, name);
  row.help = std::move(help);
  row.kind = kind;
  row.binding = binding;
  row.rules.bool_is_number = validated_;
  return row;
}

Key& KeySection::opaque(
    const std::string& name,
    std::string help,
    std::string reason) {
  return add(name, std::move(help), {}, Key::Kind::opaque)
      .refused(std::move(reason));
}

KeySection& KeySection::validated() {
  validated_ = true;
  return *this;
}

Key& KeySection::row() {
  for (Key& each : table_) {
    if (each.path == path_) {
      return each;
    }
  }
  return table_.back();
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
  if (section == nullptr || section->path == path.substr(0, dot)) {
    return nullptr;
  }
  return find_key(join_path(section->path, path.substr(dot + 1)));
}

std::vector<std::string_view> names_in(std::string_view section) {
  std::vector<std::string_view> names;
  for (const Key& row : key_table()) {
    if (row.parent() == section) {
      names.push_back(row.name());
      for (const Alias& alias : row.aliases) {
        names.push_back(alias.name);
      }
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
    return key.default_words;
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
    std::vector<Spelling> spellings;
    for (const std::string& choice : key.rules.choices) {
      spellings.push_back({0, choice});
    }
    return words_of(spellings);
  }
  std::string words = key.binding.type();
  if (const std::string range = range_text(key.rules); !range.empty()) {
    words += ", " + range;
  }
  return words;
}

} // namespace cairn::config
