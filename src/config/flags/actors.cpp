#include "config/internal/actors.h"

#include "config/internal/flag.h"
#include "config/keys/key.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace cairn::config {
namespace {

constexpr std::array<std::pair<Actor, std::string_view>, 10> actor_names{
    {{Actor::engine, "the engine"},
     {Actor::pretrain, "pretrain"},
     {Actor::generate, "generate"},
     {Actor::probe, "probe"},
     {Actor::probe_train, "probe --train"},
     {Actor::preprocess, "preprocess"},
     {Actor::merge_mp_partitions, "merge-mp-partitions"},
     {Actor::evaluate, "evaluate"},
     {Actor::finetune, "evaluate (fine-tuning)"},
     {Actor::tune, "tune"}}};

bool is_inside(const Key& key, std::string_view section) {
  return key.name.size() > section.size() && key.name.starts_with(section) &&
      key.name[section.size()] == '.';
}

/// The key itself, or the keys of a section, as far as Cairn honours them.
std::vector<const Key*> honoured_keys(const Key& key) {
  std::vector<const Key*> keys;
  for (const Key& each : key_table()) {
    if (each.kind == Key::Kind::value &&
        each.support.kind == Support::Kind::honoured &&
        (&each == &key || is_inside(each, key.name))) {
      keys.push_back(&each);
    }
  }
  return keys;
}

} // namespace

std::string_view name_of(Actor actor) {
  return std::ranges::find(
             actor_names,
             actor,
             &std::pair<Actor, std::string_view>::first)
      ->second;
}

std::string names_of(Actors actors) {
  std::vector<std::string_view> names;
  for (const auto& [actor, name] : actor_names) {
    const bool implied =
        (actor == Actor::probe_train && actors.contains(Actor::probe)) ||
        (actor == Actor::finetune && actors.contains(Actor::evaluate));
    if (actors.contains(actor) && !implied) {
      names.push_back(name);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

bool acts_on(Actors actors, std::string_view setting) {
  if (setting.starts_with("--")) {
    const Flag* flag = find_flag(setting);
    return flag != nullptr && flag->actors.meets(actors);
  }
  const Key* key = find_key(setting);
  return key != nullptr &&
      std::ranges::any_of(honoured_keys(*key), [&](const Key* each) {
           return each->actors.meets(actors);
         });
}

void refuse_unused_flags(
    const Config& config,
    Actor command,
    Actors tolerated) {
  std::vector<std::string> unused;
  for (const auto& [name, place] : config.given) {
    if (name.starts_with("--") && !acts_on(tolerated | command, name)) {
      unused.push_back(name);
    }
  }
  if (!unused.empty()) {
    const bool corpora = std::ranges::any_of(unused, [](const auto& name) {
      return name == "--train-data" || name == "--valid-data";
    });
    throw ConfigError(
        {.what =
             fmt::format("{} does not act on these flags", name_of(command)),
         .values = fmt::format("{}", fmt::join(unused, ", ")),
         .remedy = corpora ? "name preprocessed corpora by --data-path"
                           : "leave them out"});
  }
}

std::vector<std::string> unused_keys(const Config& config, Actor actor) {
  std::vector<std::string> unused;
  for (const auto& [path, place] : config.given) {
    const Key* key = find_key(path);
    if (key != nullptr && !honoured_keys(*key).empty() &&
        !acts_on(actor, path)) {
      unused.push_back(path);
    }
  }
  return unused;
}

std::vector<std::string> keys_acted_on_by(Actor actor) {
  std::vector<std::string> found;
  for (const Key& key : key_table()) {
    const auto keys = honoured_keys(key);
    if (!keys.empty() && std::ranges::all_of(keys, [&](const Key* each) {
          return each->actors.contains(actor);
        })) {
      found.emplace_back(key.name);
    }
  }
  return found;
}

} // namespace cairn::config
