#include "base/internal/ascii_case.h"
#include "base/internal/edit_distance.h"
#include "config/checks/check.h"
#include "config/keys/json_tree.h"
#include "config/keys/key.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cairn::config {
namespace {

bool same_word(std::string_view a, std::string_view b) {
  return lower_case(a) == lower_case(b);
}

[[noreturn]] void refuse_unsupported(
    const Config& config,
    const std::string& path,
    std::string_view reason) {
  refuse(
      config,
      path,
      fmt::format("known to DeepSpeed, not supported by Cairn: {}", reason));
}

// {"enabled": false} and the like ask for nothing.
bool asks_for_nothing(const Node& node) {
  if (node.is_null()) {
    return true;
  }
  if (const auto* truth = node.as<bool>()) {
    return !*truth;
  }
  if (const auto* members = node.as<Node::Object>()) {
    const Node* enabled = node.find("enabled");
    return members->empty() ||
        (enabled != nullptr && asks_for_nothing(*enabled));
  }
  return false;
}

void check_choice(
    const Config& config,
    const std::string& path,
    const std::optional<std::string>& type,
    const std::vector<std::string_view>& built,
    const std::vector<std::string_view>& known) {
  if (!type) {
    return;
  }
  const auto is = [&](std::string_view name) { return same_word(*type, name); };
  if (std::any_of(built.begin(), built.end(), is)) {
    return;
  }
  if (std::any_of(known.begin(), known.end(), is)) {
    refuse_unsupported(
        config,
        path,
        fmt::format("\"{}\"; there are {}", *type, fmt::join(built, ", ")));
  }
  const auto close = nearest(*type, built);
  refuse(
      config,
      path,
      fmt::format("\"{}\" is none of {}", *type, fmt::join(built, ", ")),
      close ? fmt::format("did you mean \"{}\"?", *close) : "");
}

} // namespace

void check_support(const Config& config) {
  for (const auto& [path, node] : config.deepspeed.unsupported) {
    const Support& support = find_key(path)->support;
    if (support.kind == Support::Kind::refused && !asks_for_nothing(node)) {
      refuse_unsupported(config, path, support.reason);
    }
  }
  const auto& optimizer = config.deepspeed.optimizer.type;
  for (const char* name : {"OneBitAdam", "OneBitLamb", "ZeroOneAdam"}) {
    if (optimizer && same_word(*optimizer, name)) {
      refuse_unsupported(
          config,
          "optimizer.type",
          "1-bit optimizers are not built; zero_quantized_gradients sends "
          "about "
          "as few bytes, at any ZeRO stage from 1 on, with Adam or Lamb");
    }
  }
  check_choice(
      config,
      "optimizer.type",
      config.deepspeed.optimizer.type,
      {"Adam", "AdamW", "SGD", "Adagrad", "Lamb", "Lion", "Muon"},
      {"MuAdam", "MuAdamW", "MuSGD"});
  check_choice(
      config,
      "scheduler.type",
      config.deepspeed.scheduler.type,
      {"WarmupLR",
       "WarmupDecayLR",
       "WarmupCosineLR",
       "OneCycle",
       "LRRangeTest"},
      {});
  for (const Key& key : key_table()) {
    if (key.kind != Key::Kind::value ||
        !config.given.contains(std::string(key.name))) {
      continue;
    }
    // At its default a key asks for nothing, so it may stay in the file.
    const Json value = key.binding.get(config.deepspeed);
    if (key.support.kind == Support::Kind::refused &&
        value != default_value(key) && value.dump() != default_text(key)) {
      refuse_unsupported(config, std::string(key.name), key.support.reason);
    }
    if (key.only_for.empty()) {
      continue;
    }
    const auto& type = key.name.starts_with("optimizer.")
        ? config.deepspeed.optimizer.type
        : config.deepspeed.scheduler.type;
    const auto types = words_in(key.only_for);
    if (type && std::ranges::none_of(types, [&](std::string_view name) {
          return same_word(name, *type);
        })) {
      refuse(
          config,
          std::string(key.name),
          fmt::format(
              "{} has no \"{}\"; it is a setting of {}",
              *type,
              key.last_name(),
              fmt::join(types, ", ")));
    }
  }
}

} // namespace cairn::config
