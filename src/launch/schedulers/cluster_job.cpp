#include "launch/internal/cluster_job.h"

#include "launch/escaped.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <charconv>

namespace cairn::launch {

ResourceRange default_cpus(int gpus) {
  return {2 * gpus, 4 * gpus};
}

ResourceRange default_memory_gib(int gpus) {
  const int least = gpus <= 1 ? 8 : 32 * gpus;
  return {least, 2 * least};
}

ResourceRange cpus_of(const ClusterJob& job) {
  return job.cpus_per_node
      ? ResourceRange{*job.cpus_per_node, *job.cpus_per_node}
      : default_cpus(job.gpus_per_node);
}

ResourceRange memory_gib_of(const ClusterJob& job) {
  return job.memory_gib_per_node
      ? ResourceRange{*job.memory_gib_per_node, *job.memory_gib_per_node}
      : default_memory_gib(job.gpus_per_node);
}

int parse_memory_gib(std::string_view text, std::string_view flag) {
  int amount = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), amount);
  const std::string_view unit(
      end,
      static_cast<std::size_t>(text.data() + text.size() - end));
  const bool gib = unit.empty() || unit == "G" || unit == "Gi" || unit == "GiB";
  const bool tib = unit == "T" || unit == "Ti" || unit == "TiB";
  if (error != std::errc{} || amount < 1 || amount > 1 << 20 ||
      (!gib && !tib)) {
    throw ConfigError(
        {.what = fmt::format("{} is not an amount of memory", escaped(text)),
         .where = std::string(flag),
         .remedy = "write it in GiB, such as 256Gi"});
  }
  return tib ? 1024 * amount : amount;
}

VolumeMount parse_volume(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == 0 || colon == std::string_view::npos ||
      !text.substr(colon + 1).starts_with('/')) {
    throw ConfigError(
        {.what = fmt::format("{} names no volume", escaped(text)),
         .where = "--pvc",
         .remedy = "write CLAIM:/path, such as megatron:/data"});
  }
  return {
      .claim = std::string(text.substr(0, colon)),
      .path = std::string(text.substr(colon + 1))};
}

} // namespace cairn::launch
