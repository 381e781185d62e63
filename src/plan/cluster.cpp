#include <cairn/plan/cluster.h>

#include "plan/bundled_clusters.h"
#include "plan/json_section.h"
#include "plan/measured_speeds.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <utility>

namespace cairn::plan {
namespace {

using Json = nlohmann::json;

constexpr double hour = 3600;
constexpr std::int64_t most_ranks = std::int64_t{1} << 20;
constexpr std::uint64_t most_bytes = 1 << 20; // of a description

Gpu gpu_from(JsonSection section) {
  Gpu gpu{
      .name = section.text("name"),
      .memory_bytes = giga * section.number("memory_gb", 0.001, most_number),
      .flops = tera * section.number("tflops", 1e-6, most_number),
      .flops_8bit = tera * section.number_or("tflops_8bit", 0, most_number, 0),
      .bandwidth =
          giga * section.number("bandwidth_gb_per_s", 0.001, most_number),
      .matmul_share = section.number("matmul_share", 0.01, 1),
      .unaligned_share = section.number_or("unaligned_share", 0.01, 1, 1),
      .flops_32bit =
          tera * section.number_or("tflops_32bit", 0, most_number, 0),
      .context_bytes =
          giga * section.number_or("context_gb", 0, most_number, 0.6),
      .group_bytes = giga * section.number_or("group_gb", 0, most_number, 0.15),
      .is_cpu = section.flag_or("cpu", false),
      .cudnn_attention = section.flag_or("cudnn_attention", true)};
  if (section.has("measured")) {
    gpu.measured = measured_from(section.section("measured"));
  }
  section.refuse_others();
  return gpu;
}

Host host_from(JsonSection section) {
  Host host{
      .memory_bytes = giga * section.number("memory_gb", 0.001, most_number),
      .copy_bandwidth = giga * section.number("copy_gb_per_s", 0, most_number),
      .adam_elements =
          giga * section.number("adam_billion_per_s", 0, most_number),
      .nvme_bytes = giga * section.number_or("nvme_gb", 0, most_number, 0),
      .nvme_read =
          giga * section.number_or("nvme_read_gb_per_s", 0, most_number, 0),
      .nvme_write =
          giga * section.number_or("nvme_write_gb_per_s", 0, most_number, 0),
      .nvme_both =
          giga * section.number_or("nvme_both_gb_per_s", 0, most_number, 0),
      .storage =
          giga * section.number_or("storage_gb_per_s", 0, most_number, 0),
      .mttf = hour * section.number_or("mttf_hours", 0, most_number, 0)};
  section.refuse_others();
  return host;
}

std::vector<Level> levels_from(const Json& list, const std::string& where) {
  if (!list.is_array() || list.empty()) {
    throw ConfigError(
        {.what = "is no list of the network's levels",
         .where = where,
         .remedy = "give one at least, the innermost first"});
  }
  std::vector<Level> levels;
  for (const Json& each : list) {
    JsonSection section(each, fmt::format("{}[{}]", where, levels.size()));
    Level level{
        .name = section.text("name"),
        .ranks = section.count("ranks", 1, most_ranks),
        .bandwidth = giga * section.number("gb_per_s", 1e-6, most_number),
        .latency = 1e-6 * section.number("microseconds", 0, most_number)};
    section.refuse_others();
    if (!levels.empty() &&
        (level.ranks <= levels.back().ranks ||
         level.ranks % levels.back().ranks != 0)) {
      throw ConfigError(
          {.what = "a level connects a multiple of the ranks of the one below",
           .where = section.where(),
           .values =
               fmt::format("{} and {}", level.ranks, levels.back().ranks)});
    }
    levels.push_back(std::move(level));
  }
  return levels;
}

std::string joined_names() {
  return fmt::format("{}", fmt::join(cluster_names(), ", "));
}

} // namespace

Cluster cluster_from_json(std::string_view text, const std::string& where) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw ConfigError(
        {.what = "is no JSON", .where = where, .values = error.what()});
  }
  JsonSection section(json, where);
  Cluster cluster{
      .name = section.text("name"),
      .about = section.text("about"),
      .gpu = gpu_from(section.section("gpu")),
      .host = host_from(section.section("host")),
      .gpus_per_node = section.count("gpus_per_node", 1, most_ranks),
      .nodes = section.count("nodes", 0, most_ranks),
      .levels = levels_from(section.value("levels"), where + ".levels")};
  section.refuse_others();
  return cluster;
}

std::vector<std::string> cluster_names() {
  std::vector<std::string> names;
  for (const BundledCluster& each : bundled_clusters) {
    names.emplace_back(each.name);
  }
  return names;
}

Cluster find_cluster(const std::string& name_or_file) {
  for (const BundledCluster& each : bundled_clusters) {
    if (each.name == name_or_file) {
      return cluster_from_json(each.json, name_or_file);
    }
  }
  if (std::filesystem::exists(name_or_file)) {
    return cluster_from_json(read_file(name_or_file, most_bytes), name_or_file);
  }
  throw ConfigError(
      {.what = fmt::format("there is no cluster or file \"{}\"", name_or_file),
       .where = "--cluster",
       .remedy = fmt::format(
           "use one of {}, or write a file as in recipes/clusters",
           joined_names())});
}

} // namespace cairn::plan
