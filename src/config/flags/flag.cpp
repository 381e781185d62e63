#include "config/internal/flag.h"

#include "config/keys/json_tree.h"

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
  std::map<std::string, const TakenFlags*> taken;
};

Table make_table() {
  Table table;
  for (const FlagGroup& group : flag_groups()) {
    for (const Flag& flag : group.flags) {
      table.rows.push_back(flag);
      table.rows.back().group = group.title;
    }
  }
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    table.by_name.emplace(normal(table.rows[i].name), i);
    for (const std::string_view alias : words_in(table.rows[i].aliases)) {
      table.by_name.emplace(normal(alias), i);
    }
  }
  for (const RefusedFlags& row : refused_flags()) {
    for (const std::string_view name : words_in(row.names)) {
      table.refused.emplace("--" + normal(name), &row);
    }
  }
  for (const TakenFlags& row : taken_flags()) {
    for (const std::string_view name : words_in(row.names)) {
      table.taken.emplace("--" + normal(name), &row);
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

const std::vector<Flag>& flag_table() {
  return the_table().rows;
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
    const auto aliases = words_in(row.aliases);
    names.insert(names.end(), aliases.begin(), aliases.end());
  }
  for (const auto& [name, row] : the_table().taken) {
    names.push_back(name);
  }
  return names;
}

const RefusedFlags* find_refused_flag(std::string_view name) {
  const auto found = the_table().refused.find(normal(name));
  return found == the_table().refused.end() ? nullptr : found->second;
}

const TakenFlags* find_taken_flag(std::string_view name) {
  const auto found = the_table().taken.find(normal(name));
  return found == the_table().taken.end() ? nullptr : found->second;
}

std::vector<OtherWords> find_other_words(std::string_view name) {
  std::vector<OtherWords> rows;
  for (const OtherWords& row : other_words()) {
    if (same_name(name, fmt::format("--{}", row.name))) {
      rows.push_back(row);
    }
  }
  return rows;
}

std::string default_text(const Flag& flag) {
  if (!flag.default_words.empty()) {
    return std::string(flag.default_words);
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
    return fmt::format("{{{}}}", fmt::join(words_in(flag.rules.choices), ","));
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
    return choice_words(words_in(flag.rules.choices));
  }
  std::string words = flag.binding.type();
  if (const std::string range = range_text(flag.rules); !range.empty()) {
    words += ", " + range;
  }
  return words;
}

} // namespace cairn::config
