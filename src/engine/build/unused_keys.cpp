#include "engine/build/unused_keys.h"

#include "config/internal/actors.h"

#include <algorithm>
#include <string_view>

namespace cairn::inline engine {

namespace {

bool covers(std::string_view key, std::string_view path) {
  return path.starts_with(key) &&
      (path.size() == key.size() || path[key.size()] == '.');
}

} // namespace

std::vector<std::string> unused_keys(
    const config::Config& config,
    std::span<const std::string> used_elsewhere) {
  std::vector<std::string> keys =
      config::unused_keys(config, config::Actor::engine);
  std::erase_if(keys, [&](const std::string& path) {
    return std::ranges::any_of(used_elsewhere, [&](const std::string& key) {
      return covers(key, path) || covers(path, key);
    });
  });
  return keys;
}

} // namespace cairn::engine
