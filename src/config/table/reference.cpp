#include "config/internal/reference.h"

#include "base/internal/edit_distance.h"
#include "base/internal/wrapped_text.h"
#include "config/internal/flag.h"
#include "config/keys/json_tree.h"
#include "config/keys/key.h"

#include <cairn/base/error.h>
#include <cairn/config/config.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace cairn::config {
namespace {

std::string listed(std::string_view words) {
  return fmt::format("{}", fmt::join(words_in(words), ", "));
}

/// True for a setting that is read and checked, and that nobody acts on.
template <typename Row>
bool is_idle(const Row& row) {
  return row.support.kind == Support::Kind::honoured && row.actors.empty();
}

std::string support_text(const Support& support, std::string_view by) {
  switch (support.kind) {
    case Support::Kind::honoured:
      return "yes";
    case Support::Kind::without_effect:
      return fmt::format("accepted, has no effect: {}", support.reason);
    case Support::Kind::refused:
      return fmt::format(
          "no, known to {}, not supported by Cairn: {}",
          by,
          support.reason);
  }
  return "";
}

std::string support_word(const Key& key) {
  if (!key.moved_to.empty()) {
    return "deprecated";
  }
  switch (key.support.kind) {
    case Support::Kind::honoured:
      return is_idle(key) && key.kind == Key::Kind::value ? "not acted on" : "";
    case Support::Kind::without_effect:
      return "no effect";
    case Support::Kind::refused:
      return "refused";
  }
  return "";
}

std::string line(std::string_view label, std::string_view text) {
  return text.empty()
      ? ""
      : fmt::format("  {:<10} {}\n", label, wrapped_text(text, 13));
}

const Flag* flag_of(const Key& key) {
  for (const Flag& flag : flag_table()) {
    if (flag.json == key.name) {
      return &flag;
    }
  }
  return nullptr;
}

std::vector<const Key*> children_of(const Key& section) {
  std::vector<const Key*> children;
  for (const Key& key : key_table()) {
    if (key.parent() == section.name) {
      children.push_back(&key);
    }
  }
  return children;
}

std::string explain_key(const Key& key) {
  std::string text =
      fmt::format("{}\n  {}\n\n", key.name, wrapped_text(key.help, 2));
  text += line("type", type_text(key));
  text += line("default", default_text(key));
  text += line("also", listed(key.aliases));
  text += line("only for", listed(key.only_for));
  if (const Flag* flag = flag_of(key)) {
    text += line("flag", flag->name);
  }
  text += line(
      "supported",
      !key.moved_to.empty()
          ? fmt::format("deprecated, moved to {}", key.moved_to)
          : is_idle(key) && key.kind == Key::Kind::value
          ? "read and checked; the engine does not act on it yet"
          : support_text(key.support, "DeepSpeed"));
  if (key.kind == Key::Kind::section) {
    text += "\n";
    for (const Key* child : children_of(key)) {
      const std::string word = support_word(*child);
      text += fmt::format(
          "  {:<44} {}{}\n",
          child->last_name(),
          child->kind == Key::Kind::value ? default_text(*child) : "{ … }",
          word.empty() ? "" : "  (" + word + ")");
    }
  }
  return text;
}

std::string explain_flag(const Flag& flag) {
  std::string usage(flag.name);
  if (const std::string value = value_text(flag); !value.empty()) {
    usage += " " + value;
  }
  std::string text =
      fmt::format("{}\n  {}\n\n", usage, wrapped_text(flag.help, 2));
  text += line("group", flag.group);
  text += line("type", type_text(flag));
  text += line("default", default_text(flag));
  text += line("also", listed(flag.aliases));
  text += line("JSON key", flag.json);
  text += line(
      "supported",
      is_idle(flag) ? "read and checked; no command acts on it yet"
                    : support_text(flag.support, "Megatron-LM"));
  return text;
}

std::string one_line(const Flag& flag) {
  std::string usage(flag.name);
  for (const std::string_view alias : words_in(flag.aliases)) {
    usage += fmt::format(", {}", alias);
  }
  if (const std::string value = value_text(flag); !value.empty()) {
    usage += " " + value;
  }
  std::string help(flag.help);
  if (flag.arity.most != 0 || flag.support.kind != Support::Kind::honoured) {
    const std::string standard = default_text(flag);
    if (flag.support.kind == Support::Kind::without_effect) {
      help += fmt::format(" No effect: {}.", flag.support.reason);
    } else if (standard != "none") {
      help += fmt::format(" Default: {}.", standard);
    }
  }
  if (!flag.json.empty()) {
    help += fmt::format(" JSON: {}.", flag.json);
  }
  return fmt::format("  {}\n      {}\n", usage, wrapped_text(help, 6));
}

// Names a person may have meant by a last part such as "stage".
std::vector<const Key*> keys_named(std::string_view name) {
  std::vector<const Key*> found;
  for (const Key& key : key_table()) {
    const auto aliases = words_in(key.aliases);
    if (key.last_name() == name ||
        std::ranges::find(aliases, name) != aliases.end()) {
      found.push_back(&key);
    }
  }
  return found;
}

[[noreturn]] void fail_unknown(std::string_view name) {
  std::vector<std::string_view> candidates = flag_names();
  for (const Key& key : key_table()) {
    candidates.push_back(key.name);
    candidates.push_back(key.last_name());
  }
  const auto close = nearest(name, candidates);
  throw ConfigError(
      {.what = fmt::format("no key or flag is called \"{}\"", name),
       .remedy = close ? fmt::format("did you mean \"{}\"?", *close)
                       : "`cairn config keys` lists them all"});
}

std::string cell(std::string text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '|' ? "\\|" : std::string(1, c);
  }
  return escaped;
}

std::string key_row(const Key& key) {
  std::string help(key.help);
  if (!key.aliases.empty()) {
    help +=
        fmt::format(" Also `{}`.", fmt::join(words_in(key.aliases), "`, `"));
  }
  if (!key.only_for.empty()) {
    help += fmt::format(" Only {}.", listed(key.only_for));
  }
  if (const Flag* flag = flag_of(key)) {
    help += fmt::format(" Flag `{}`.", flag->name);
  }
  if (!key.moved_to.empty()) {
    help += fmt::format(" **Deprecated**: moved to `{}`.", key.moved_to);
  } else if (key.support.kind == Support::Kind::refused) {
    help += fmt::format(" **Not supported**: {}.", key.support.reason);
  } else if (key.support.kind == Support::Kind::without_effect) {
    help += fmt::format(" **No effect**: {}.", key.support.reason);
  } else if (is_idle(key) && key.kind == Key::Kind::value) {
    help += " **Not acted on yet**.";
  }
  return fmt::format(
      "| `{}` | {} | {} | {} |\n",
      key.last_name(),
      cell(type_text(key)),
      cell(default_text(key)),
      cell(help));
}

std::string flag_row(const Flag& flag) {
  std::string help(flag.help);
  if (!flag.json.empty()) {
    help += fmt::format(" JSON `{}`.", flag.json);
  }
  if (flag.support.kind == Support::Kind::without_effect) {
    help += fmt::format(" **No effect**: {}.", flag.support.reason);
  }
  std::string names = fmt::format("`{}`", flag.name);
  for (const std::string_view alias : words_in(flag.aliases)) {
    names += fmt::format(", `{}`", alias);
  }
  return fmt::format(
      "| {} | {} | {} | {} | {} |\n",
      names,
      cell(type_text(flag)),
      cell(default_text(flag)),
      cell(help),
      flag.actors.empty() ? "none yet" : names_of(flag.actors));
}

} // namespace

std::string keys_text() {
  std::string text = page_note;
  for (const Key& key : key_table()) {
    if (key.kind == Key::Kind::section) {
      text += fmt::format("\n{}\n", key.name);
      continue;
    }
    const std::string word = support_word(key);
    text += fmt::format(
        "{:<62} {:<26} {}{}\n",
        key.name,
        default_text(key),
        type_text(key),
        word.empty() ? "" : "  (" + word + ")");
  }
  return text;
}

std::string flags_text(Actor command) {
  return flags_text(
      [&](std::string_view flag) { return acts_on(command, flag); });
}

std::string flags_text(const std::function<bool(std::string_view)>& takes) {
  std::string text;
  std::string_view group;
  for (const Flag& flag : flag_table()) {
    if (!takes(flag.name)) {
      continue;
    }
    if (flag.group != group) {
      text += fmt::format("{}{}:\n", text.empty() ? "" : "\n", flag.group);
      group = flag.group;
    }
    text += one_line(flag);
  }
  return text;
}

std::string flags_table(const Config& config, Actor command) {
  std::string text = "| flag | value |\n|---|---|\n";
  for (const Flag& flag : flag_table()) {
    if (flag.actors.contains(command)) {
      text += fmt::format(
          "| {} | {} |\n",
          flag.name,
          cell(flag.binding.get(config.flags).dump()));
    }
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> given_values(
    const Config& config) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto& [name, place] : config.given) {
    if (!name.starts_with("--") && place.name.starts_with("--")) {
      continue; // the flag that means the same is listed
    }
    Json value;
    if (const Flag* flag = find_flag(name)) {
      value = flag->binding.get(config.flags);
    } else if (const Key* key = find_key(name);
               key != nullptr && key->kind == Key::Kind::value) {
      value = key->binding.get(config.deepspeed);
    } else {
      continue; // a section, or a free part of one
    }
    values.emplace_back(name, value.dump());
  }
  return values;
}

std::string given_text(const Config& config) {
  std::string text;
  for (const auto& [name, value] : given_values(config)) {
    text += fmt::format("\n  {:.<48} {}", name + " ", value);
  }
  return text;
}

std::string flags_text() {
  std::string text = page_note;
  for (const FlagGroup& group : flag_groups()) {
    text += fmt::format(
        "{}{}:\n",
        &group == flag_groups().data() ? "" : "\n",
        group.title);
    for (const Flag& flag : group.flags) {
      text += one_line(flag);
    }
  }
  return text;
}

std::string explain(std::string_view name) {
  if (name.starts_with("-")) {
    if (const Flag* flag = find_flag(name)) {
      return explain_flag(*flag);
    }
    if (const TakenFlags* taken = find_taken_flag(name)) {
      return fmt::format(
          "{}\n{}{}",
          name,
          line("values", listed(taken->choices)),
          line(
              "supported",
              fmt::format("accepted, has no effect: {}", taken->reason)));
    }
    std::string meanings;
    for (const OtherWords& row : find_other_words(name)) {
      meanings += line(
          row.value == "*" ? "" : row.value,
          fmt::format("means {}", row.means));
    }
    if (!meanings.empty()) {
      return fmt::format("{}\n{}", name, meanings);
    }
    if (const RefusedFlags* refused = find_refused_flag(name)) {
      return fmt::format(
          "{}\n{}",
          name,
          line("supported", "no, " + refused->text()));
    }
    fail_unknown(name);
  }
  if (const Key* key = find_key(name)) {
    return explain_key(*key);
  }
  std::string text;
  for (const Key* key : keys_named(name)) {
    text += (text.empty() ? "" : "\n") + explain_key(*key);
  }
  if (text.empty()) {
    fail_unknown(name);
  }
  return text;
}

std::string reference_page() {
  std::string page =
      "# Configuration reference\n\n"
      "Every JSON key and every flag of Cairn, with type, default and meaning. "
      "Look here\nwhen you write a configuration or bring one from DeepSpeed "
      "or "
      "Megatron-LM.\n`cairn config explain NAME` shows one entry, `cairn "
      "config "
      "check FILE` resolves a\nfile. `cairn config docs` prints this page from "
      "the table that also parses, so it\ncannot differ from what the program "
      "does.\n\n";
  page += page_note;
  page +=
      "JSON files are DeepSpeed's, read as hjson: comments, trailing commas "
      "and unquoted\nkeys are fine. An unknown key is an error; a key that "
      "is not supported is\nrefused unless it has its default value.\n\n"
      "`\"auto\"` is as good as leaving the key out: a flag fills it in, else "
      "it is the\ndefault. Two kinds of keys refuse it when nothing fills them "
      "in: the batch sizes\n(`train_batch_size`, "
      "`train_micro_batch_size_per_gpu`,\n`gradient_accumulation_steps`) "
      "while neither of the first two is known, and\n`optimizer.params.lr` "
      "without `--lr`.\n\n"
      "## JSON keys\n\n"
      "### Top level\n\n"
      "| Key | Type | Default | Meaning |\n|---|---|---|---|\n";
  for (const Key& key : key_table()) {
    if (key.parent().empty() && key.kind != Key::Kind::section) {
      page += key_row(key);
    }
  }
  for (const Key& section : key_table()) {
    if (section.kind != Key::Kind::section) {
      continue;
    }
    page += fmt::format("\n### `{}`\n\n{}\n", section.name, section.help);
    if (!section.aliases.empty()) {
      page += fmt::format("\nAlso `{}`.\n", section.aliases);
    }
    page += "\n| Key | Type | Default | Meaning |\n|---|---|---|---|\n";
    for (const Key* key : children_of(section)) {
      page += key_row(*key);
    }
  }
  page +=
      "\n## Flags\n\nIn names `-` and `_` are the same. A flag and a JSON key "
      "that mean the same must\nagree; one of them is enough. `@FILE` stands "
      "for "
      "the flags in a file, where `#`\nbegins a comment and quotes hold words "
      "together, and `@@x` for the word `@x`; of a\nflag that is given twice "
      "the last counts.\n";
  for (const FlagGroup& group : flag_groups()) {
    page += fmt::format(
        "\n### {}\n\n| Flag | Type | Default | Meaning | Commands |\n"
        "|---|---|---|---|---|\n",
        group.title);
    for (const Flag& flag : group.flags) {
      page += flag_row(flag);
    }
  }
  page += "\n## Flags of Megatron-LM that are refused\n\n"
          "| Why | Flags |\n|---|---|\n";
  for (const RefusedFlags& row : refused_flags()) {
    if (row.launcher) {
      continue;
    }
    page += fmt::format("| {} | {} |\n", row.reason, row.names);
  }
  return page;
}

} // namespace cairn::config
