#include <cairn/plan/cluster.h>

#include "base/internal/edit_distance.h"
#include "plan/bundled_clusters.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

namespace cairn::plan {
namespace {

using Json = nlohmann::json;

/// An object of the description whose keys are all asked for, once.
class Section {
 public:
  Section(const Json& object, std::string where)
      : object_(object), where_(std::move(where)) {
    if (!object.is_object()) {
      throw ConfigError({.what = "is no JSON object", .where = where_});
    }
  }

  const Json& value(const char* key) {
    known_.emplace_back(key);
    const auto found = object_.find(key);
    if (found == object_.end()) {
      throw ConfigError(
          {.what = fmt::format("the key \"{}\" is missing", key),
           .where = where_,
           .remedy = "recipes/clusters/README.md lists the keys"});
    }
    return *found;
  }
  bool has(const char* key) const { return object_.contains(key); }

  double number(const char* key, double least, double most) {
    const Json& found = value(key);
    const double given = found.is_number() ? found.get<double>() : std::nan("");
    if (!(given >= least && given <= most)) {
      throw ConfigError(
          {.what = fmt::format("is no number from {} to {}", least, most),
           .where = fmt::format("{}.{}", where_, key),
           .values = found.dump().substr(0, 40)});
    }
    return given;
  }
  double number_or(const char* key, double least, double most, double other) {
    known_.emplace_back(key);
    return has(key) ? number(key, least, most) : other;
  }
  std::int64_t count(const char* key, std::int64_t least, std::int64_t most) {
    const double given =
        number(key, static_cast<double>(least), static_cast<double>(most));
    if (given != std::floor(given)) {
      throw ConfigError(
          {.what = "is no whole number",
           .where = fmt::format("{}.{}", where_, key),
           .values = fmt::format("{}", given)});
    }
    return static_cast<std::int64_t>(given);
  }
  bool flag_or(const char* key, bool other) {
    known_.emplace_back(key);
    if (!has(key)) {
      return other;
    }
    const Json& found = value(key);
    if (!found.is_boolean()) {
      throw ConfigError(
          {.what = "is neither true nor false",
           .where = fmt::format("{}.{}", where_, key),
           .values = found.dump().substr(0, 40)});
    }
    return found.get<bool>();
  }
  std::string text(const char* key) {
    const Json& found = value(key);
    if (!found.is_string()) {
      throw ConfigError(
          {.what = "is no text", .where = fmt::format("{}.{}", where_, key)});
    }
    return found.get<std::string>();
  }
  Section section(const char* key) {
    return {value(key), fmt::format("{}.{}", where_, key)};
  }
  const std::string& where() const { return where_; }

  void refuse_others() const {
    for (const auto& [key, unused] : object_.items()) {
      if (std::ranges::find(known_, key) == known_.end()) {
        std::vector<std::string_view> names(known_.begin(), known_.end());
        const auto closest = nearest(key, names);
        throw ConfigError(
            {.what = fmt::format("unknown key \"{}\"", key),
             .where = where_,
             .remedy = closest ? fmt::format("did you mean \"{}\"?", *closest)
                               : "remove it"});
      }
    }
  }

 private:
  const Json& object_;
  std::string where_;
  std::vector<std::string> known_;
};

constexpr double giga = 1e9;
constexpr double tera = 1e12;
constexpr double hour = 3600;
constexpr double most = 1e9;
constexpr std::int64_t most_ranks = std::int64_t{1} << 20;
constexpr std::uint64_t most_bytes = 1 << 20; // of a description

/// Pairs of a size and a speed, in units of `unit`.
std::vector<SpeedAt> curve_from(
    const Json& list,
    double unit,
    const std::string& where) {
  const auto refuse = [&] {
    throw ConfigError(
        {.what = "is no list of pairs of a size and a speed, both above 0, by "
                 "growing size",
         .where = where});
  };
  std::vector<SpeedAt> curve;
  for (const Json& pair : list.is_array() ? list : Json::array({0})) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() ||
        !pair[1].is_number()) {
      refuse();
    }
    const SpeedAt point{
        unit * pair[0].get<double>(),
        unit * pair[1].get<double>()};
    if (point.size <= (curve.empty() ? 0 : curve.back().size) ||
        point.speed <= 0) {
      refuse();
    }
    curve.push_back(point);
  }
  return curve;
}

MeasuredSpeeds measured_from(Section section) {
  const auto curve = [&](const char* key) {
    return curve_from(
        section.value(key),
        giga,
        fmt::format("{}.{}", section.where(), key));
  };
  MeasuredSpeeds measured{
      .products = curve("products"),
      .attention = curve("attention"),
      .traffic = curve("traffic"),
      .passes = section.number("passes", 0.01, most),
      .operator_seconds =
          1e-6 * section.number_or("operator_microseconds", 0, most, 0)};
  section.refuse_others();
  return measured;
}

Gpu gpu_from(Section section) {
  Gpu gpu{
      .name = section.text("name"),
      .memory_bytes = giga * section.number("memory_gb", 0.001, most),
      .flops = tera * section.number("tflops", 1e-6, most),
      .flops_8bit = tera * section.number_or("tflops_8bit", 0, most, 0),
      .bandwidth = giga * section.number("bandwidth_gb_per_s", 0.001, most),
      .matmul_share = section.number("matmul_share", 0.01, 1),
      .unaligned_share = section.number_or("unaligned_share", 0.01, 1, 1),
      .flops_32bit = tera * section.number_or("tflops_32bit", 0, most, 0),
      .context_bytes = giga * section.number_or("context_gb", 0, most, 0.6),
      .group_bytes = giga * section.number_or("group_gb", 0, most, 0.15),
      .is_cpu = section.flag_or("cpu", false),
      .cudnn_attention = section.flag_or("cudnn_attention", true)};
  if (section.has("measured")) {
    gpu.measured = measured_from(section.section("measured"));
  }
  section.refuse_others();
  return gpu;
}

Host host_from(Section section) {
  Host host{
      .memory_bytes = giga * section.number("memory_gb", 0.001, most),
      .copy_bandwidth = giga * section.number("copy_gb_per_s", 0, most),
      .adam_elements = giga * section.number("adam_billion_per_s", 0, most),
      .nvme_bytes = giga * section.number_or("nvme_gb", 0, most, 0),
      .nvme_read = giga * section.number_or("nvme_read_gb_per_s", 0, most, 0),
      .nvme_write = giga * section.number_or("nvme_write_gb_per_s", 0, most, 0),
      .storage = giga * section.number_or("storage_gb_per_s", 0, most, 0),
      .mttf = hour * section.number_or("mttf_hours", 0, most, 0)};
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
    Section section(each, fmt::format("{}[{}]", where, levels.size()));
    Level level{
        .name = section.text("name"),
        .ranks = section.count("ranks", 1, most_ranks),
        .bandwidth = giga * section.number("gb_per_s", 1e-6, most),
        .latency = 1e-6 * section.number("microseconds", 0, most)};
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

double speed_at(const std::vector<SpeedAt>& curve, double size) {
  const auto above = std::ranges::lower_bound(curve, size, {}, &SpeedAt::size);
  if (above == curve.begin() || above == curve.end()) {
    return above == curve.begin() ? curve.front().speed : curve.back().speed;
  }
  const SpeedAt& low = *std::prev(above);
  const double part =
      std::log(size / low.size) / std::log(above->size / low.size);
  return low.speed * std::pow(above->speed / low.speed, part);
}

Cluster cluster_from_json(std::string_view text, const std::string& where) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw ConfigError(
        {.what = "is no JSON", .where = where, .values = error.what()});
  }
  Section section(json, where);
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
