#include "config/internal/flag.h"
#include "config/internal/reference.h"
#include "config/keys/key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
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

/// Names by a common part (a section, a reason), in the order of the table.
class NameTable {
 public:
  void add(std::string_view shared, std::string name) {
    const auto row =
        std::ranges::find(rows_, shared, &std::pair<std::string, Names>::first);
    Names& names = row == rows_.end()
        ? rows_.emplace_back(std::string(shared), Names()).second
        : row->second;
    names.push_back(std::move(name));
  }
  /// A table with the common part on the left.
  std::string under(std::string_view left, std::string_view right) const {
    std::string text = heading(left, right);
    for (const auto& [shared, names] : rows_) {
      text += fmt::format("| {} | {} |\n", shared, fmt::join(names, ", "));
    }
    return text;
  }
  /// A table with the common part, a reason, on the right.
  std::string because(std::string_view left) const {
    std::string text = heading(left, "because");
    for (const auto& [shared, names] : rows_) {
      text += fmt::format("| {} | {} |\n", fmt::join(names, ", "), shared);
    }
    return text;
  }

 private:
  static std::string heading(std::string_view left, std::string_view right) {
    return fmt::format("| {} | {} |\n|---|---|\n", left, right);
  }

  std::vector<std::pair<std::string, Names>> rows_;
};

/// The settings of one table, sorted by Cairn's support for them.
struct Sorted {
  NameTable working;
  NameTable idle; ///< read and checked, and acted on by nobody
  NameTable without_effect;
  NameTable refused;

  template <typename Row>
  void add(const Row& row, std::string_view group, std::string_view name) {
    switch (row.support.kind) {
      case Support::Kind::without_effect:
        without_effect.add(row.support.reason, in_code(row.name));
        break;
      case Support::Kind::refused:
        refused.add(row.support.reason, in_code(row.name));
        break;
      case Support::Kind::honoured:
        (row.actors.empty() ? idle : working).add(group, in_code(name));
        break;
    }
  }
};

/// A row with the number of the names, the first of them, and the reason.
std::string few_of(std::string_view words, std::string_view reason) {
  const auto names = words_in(words);
  constexpr std::size_t few = 4;
  const std::size_t shown = std::min(names.size(), few);
  return fmt::format(
      "| {} | `--{}`{} | {} |\n",
      names.size(),
      fmt::join(names.begin(), names.begin() + shown, "`, `--"),
      names.size() > few ? ", …" : "",
      reason);
}

} // namespace

std::string deepspeed_support() {
  Sorted sorted;
  for (const Key& key : key_table()) {
    if (key.kind != Key::Kind::section) {
      const std::string section =
          key.parent().empty() ? "top level" : in_code(key.parent());
      sorted.add(key, section, key.last_name());
    }
  }
  return sorted.working.under("section", "keys") + "\n" +
      sorted.idle.under("section", "keys that nothing acts on yet") + "\n" +
      sorted.without_effect.because("accepted without effect") + "\n" +
      sorted.refused.because("refused unless at its default");
}

std::string megatron_support() {
  Sorted sorted;
  for (const Flag& flag : flag_table()) {
    sorted.add(flag, flag.group, flag.name);
  }
  std::string text = sorted.working.under("group", "flags") + "\n" +
      sorted.idle.under("group", "flags that no command acts on yet") + "\n" +
      sorted.without_effect.because("accepted without effect") + "\n";
  text += "| accepted without effect | such as | because |\n|---|---|---|\n";
  for (const TakenFlags& row : taken_flags()) {
    text += few_of(row.names, row.reason);
  }
  text += "\n| in other words | means |\n|---|---|\n";
  for (const OtherWords& row : other_words()) {
    const bool any = row.value == "*";
    text += fmt::format(
        "| `--{}{}{}` | `{}{}` |\n",
        row.name,
        row.value.empty() ? "" : " ",
        any ? "N" : row.value,
        row.means,
        any ? " N" : "");
  }
  text += "\n| refused | such as | because |\n|---|---|---|\n";
  for (const RefusedFlags& row : refused_flags()) {
    if (row.launcher) {
      continue;
    }
    text += few_of(row.names, row.reason);
  }
  return text;
}

} // namespace cairn::config
