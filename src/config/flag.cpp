#include "config/flag.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace cairn::config {
namespace {

std::string normal(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '_', '-');
  return result;
}

struct Table {
  std::vector<Flag> rows;
  std::map<std::string, std::size_t> by_name;
  std::map<std::string, const RefusedFlags*> refused;
};

Table make_table() {
  Table table;
  add_model_flags(table.rows);
  add_training_flags(table.rows);
  add_distributed_flags(table.rows);
  add_data_flags(table.rows);
  add_run_flags(table.rows);
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    table.by_name.emplace(normal(table.rows[i].name), i);
    for (const FlagAlias& alias : table.rows[i].aliases) {
      table.by_name.emplace(normal(alias.name), i);
    }
  }
  for (const RefusedFlags& row : refused_flags()) {
    std::string_view names = row.names;
    while (!names.empty()) {
      const std::size_t space = std::min(names.find(' '), names.size());
      table.refused.emplace("--" + normal(names.substr(0, space)), &row);
      names.remove_prefix(std::min(space + 1, names.size()));
    }
  }
  return table;
}

const Table& the_table() {
  static const Table table = make_table();
  return table;
}

} // namespace

std::string RefusedFlags::text() const {
  return launcher
      ? std::string(reason)
      : fmt::format("known to Megatron-LM, not supported by Cairn: {}", reason);
}

Flag& Flag::at_least(double bound) {
  rules.least = bound;
  return *this;
}

Flag& Flag::above(double bound) {
  rules.least = bound;
  rules.least_excluded = true;
  return *this;
}

Flag& Flag::at_most(double bound) {
  rules.most = bound;
  return *this;
}

Flag& Flag::one_of(std::vector<std::string> choices) {
  rules.choices = std::move(choices);
  return *this;
}

Flag& Flag::also(std::string other, std::string warning) {
  aliases.push_back({std::move(other), std::move(warning)});
  return *this;
}

Flag& Flag::by_default(std::string words) {
  default_words = std::move(words);
  return *this;
}

Flag& Flag::same_as(std::string json_path) {
  json = std::move(json_path);
  return *this;
}

Flag& Flag::values(std::size_t least, std::size_t most) {
  arity = {least, most};
  return *this;
}

Flag& Flag::without_effect(std::string reason) {
  support = {Support::Kind::without_effect, std::move(reason)};
  return *this;
}

Flag& FlagGroup::add(
    std::string name,
    std::string help,
    Binding<Flags> binding) {
  Flag& row = table_.emplace_back();
  row.name = std::move(name);
  row.group = title_;
  row.help = std::move(help);
  row.binding = binding;
  if (binding.flag) {
    row.arity = {0, 0};
  } else if (binding.list) {
    row.arity = {1, std::numeric_limits<std::size_t>::max()};
  }
  return row;
}

const std::vector<Flag>& flag_table() {
  return the_table().rows;
}

std::vector<std::string> flag_groups() {
  std::vector<std::string> groups;
  for (const Flag& row : flag_table()) {
    if (std::find(groups.begin(), groups.end(), row.group) == groups.end()) {
      groups.push_back(row.group);
    }
  }
  return groups;
}

const Flag* find_flag(std::string_view name) {
  const auto found = the_table().by_name.find(normal(name));
  return found == the_table().by_name.end() ? nullptr
                                            : &the_table().rows[found->second];
}

std::vector<std::string_view> flag_names() {
  std::vector<std::string_view> names;
  for (const Flag& row : flag_table()) {
    names.push_back(row.name);
    for (const FlagAlias& alias : row.aliases) {
      names.push_back(alias.name);
    }
  }
  return names;
}

const RefusedFlags* find_refused_flag(std::string_view name) {
  const auto found = the_table().refused.find(normal(name));
  return found == the_table().refused.end() ? nullptr : found->second;
}

std::string default_text(const Flag& flag) {
  if (!flag.default_words.empty()) {
    return flag.default_words;
  }
  const Json value = flag.binding.get(Flags{});
  if (value.is_null() || (value.is_array() && value.empty())) {
    return "none";
  }
  if (flag.arity.most == 0) {
    return value == Json(flag.switched_to) ? "on" : "off";
  }
  if (value.is_array()) {
    std::vector<std::string> words;
    for (const Json& each : value) {
      words.push_back(each.is_string() ? each.get<std::string>() : each.dump());
    }
    return fmt::format("{}", fmt::join(words, " "));
  }
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string value_text(const Flag& flag) {
  if (flag.arity.most == 0) {
    return "";
  }
  std::string word = flag.binding.type();
  if (!flag.rules.choices.empty()) {
    return fmt::format("{{{}}}", fmt::join(flag.rules.choices, ","));
  }
  if (word.find('"') != std::string::npos) { // the spellings of an enum
    std::string list;
    for (std::size_t i = word.find('"'); i != std::string::npos;) {
      const std::size_t end = word.find('"', i + 1);
      list += (list.empty() ? "" : ",") + word.substr(i + 1, end - i - 1);
      i = word.find('"', end + 1);
    }
    return "{" + list + "}";
  }
  word = word.ends_with("integer") || word.ends_with("integers") ? "N"
      : word.ends_with("number") || word.ends_with("numbers")    ? "X"
                                                                 : "TEXT";
  if (flag.arity.most == 1) {
    return word;
  }
  if (flag.arity.most == flag.arity.least) {
    std::string words = word;
    for (std::size_t i = 1; i < flag.arity.most; ++i) {
      words += " " + word;
    }
    return words;
  }
  return word + "…";
}

std::string type_text(const Flag& flag) {
  if (flag.arity.most == 0) {
    return "switch";
  }
  if (!flag.rules.choices.empty()) {
    std::vector<Spelling> spellings;
    for (const std::string& choice : flag.rules.choices) {
      spellings.push_back({0, choice});
    }
    return words_of(spellings);
  }
  std::string words = flag.binding.type();
  if (const std::string range = range_text(flag.rules); !range.empty()) {
    words += ", " + range;
  }
  return words;
}

} // namespace cairn::config
