#include <cairn/config/reference.h>

#include "config/flag.h"
#include "config/key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::config {
namespace {

using Names = std::vector<std::string>;

std::string in_code(std::string_view name) {
  return fmt::format("`{}`", name);
}

std::string listed(const Names& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Names by the reason that they share, reasons in the order of the table.
class Reasons {
 public:
  void add(const std::string& reason, std::string name) {
    for (auto& [known, names] : rows_) {
      if (known == reason) {
        names.push_back(std::move(name));
        return;
      }
    }
    rows_.push_back({reason, {std::move(name)}});
  }
  std::string table(std::string_view title) const {
    std::string text =
        fmt::format("| {} | {} |\n|---|---|\n", title, "because");
    for (const auto& [reason, names] : rows_) {
      text += fmt::format("| {} | {} |\n", listed(names), reason);
    }
    return text;
  }

 private:
  std::vector<std::pair<std::string, Names>> rows_;
};

} // namespace

std::string deepspeed_support() {
  std::vector<std::string> order;
  std::map<std::string, Names> working;
  Reasons without_effect;
  Reasons refused;
  for (const Key& key : key_table()) {
    if (key.kind == Key::Kind::section) {
      continue;
    }
    if (key.support.kind == Support::Kind::without_effect) {
      without_effect.add(key.support.reason, in_code(key.path));
    } else if (key.support.kind == Support::Kind::refused) {
      refused.add(key.support.reason, in_code(key.path));
    } else {
      const std::string section(key.parent());
      Names& names = working[section];
      if (names.empty()) {
        order.push_back(section);
      }
      names.push_back(in_code(key.name()));
    }
  }
  std::string text = "| section | keys |\n|---|---|\n";
  for (const std::string& section : order) {
    text += fmt::format(
        "| {} | {} |\n",
        section.empty() ? "top level" : in_code(section),
        listed(working[section]));
  }
  return text + "\n" + without_effect.table("accepted without effect") + "\n" +
      refused.table("refused unless at its default");
}

std::string megatron_support() {
  std::vector<std::string> order = flag_groups();
  std::map<std::string, Names> working;
  Reasons without_effect;
  for (const Flag& flag : flag_table()) {
    if (flag.support.kind == Support::Kind::without_effect) {
      without_effect.add(flag.support.reason, in_code(flag.name));
    } else {
      working[flag.group].push_back(in_code(flag.name));
    }
  }
  std::string text = "| group | flags |\n|---|---|\n";
  for (const std::string& group : order) {
    text += fmt::format("| {} | {} |\n", group, listed(working[group]));
  }
  text += "\n" + without_effect.table("accepted without effect") + "\n";
  text += "| refused | such as | because |\n|---|---|---|\n";
  for (const RefusedFlags& row : refused_flags()) {
    if (row.launcher) {
      continue;
    }
    Names names;
    for (std::string_view rest = row.names; !rest.empty();) {
      const std::size_t space = std::min(rest.find(' '), rest.size());
      if (space > 0) {
        names.push_back(fmt::format("`--{}`", rest.substr(0, space)));
      }
      rest.remove_prefix(std::min(space + 1, rest.size()));
    }
    constexpr std::size_t few = 4;
    const std::size_t count = names.size();
    names.resize(std::min(count, few));
    text += fmt::format(
        "| {} | {}{} | {} |\n",
        count,
        listed(names),
        count > few ? ", …" : "",
        row.reason);
  }
  return text;
}

} // namespace cairn::config
