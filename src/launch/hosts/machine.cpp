#include "launch/internal/machine.h"

#include "base/internal/cpu.h"
#include "launch/escaped.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <system_error>

namespace cairn::launch {
namespace {

std::optional<int> parse_number(std::string_view text) {
  int value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} ||
      end != text.data() + text.size() || value < 0) {
    return std::nullopt;
  }
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

} // namespace

std::vector<std::string> find_gpus(
    const std::filesystem::path& devices,
    std::optional<std::string_view> visible) {
  std::vector<int> present;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(devices, error)) {
    const auto name = entry.path().filename().string();
    constexpr std::string_view stem = "nvidia";
    if (name.starts_with(stem)) {
      if (const auto number =
              parse_number(std::string_view(name).substr(stem.size()))) {
        present.push_back(*number);
      }
    }
  }
  std::vector<std::string> gpus;
  if (present.empty()) {
    return gpus;
  }
  if (!visible) {
    // CUDA counts devices from 0 even if a container has only, say,
    // /dev/nvidia3.
    for (std::size_t i = 0; i < present.size(); ++i) {
      gpus.push_back(std::to_string(i));
    }
    return gpus;
  }
  for (auto name : split(*visible, ',')) {
    name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
    // CUDA ignores the rest of the list from the first unknown entry on.
    if (!parse_number(name) && !name.starts_with("GPU-") &&
        !name.starts_with("MIG-")) {
      break;
    }
    gpus.emplace_back(name);
  }
  return gpus;
}

Machine inspect_machine() {
  Machine machine;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  machine.gpus = find_gpus(
      "/dev",
      visible == nullptr ? std::nullopt
                         : std::optional<std::string_view>(visible));
  machine.cores = allowed_cpus();
  machine.threads = CpuInfo::detect().physical_cores;
  return machine;
}

std::vector<int> parse_core_list(std::string_view text) {
  std::vector<int> cores;
  for (const auto part : split(text, ',')) {
    const auto dash = part.find('-');
    const auto first = parse_number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos
        ? first
        : parse_number(part.substr(dash + 1));
    if (!first || !last || *last < *first || *last >= 1 << 20) {
      throw ConfigError(
          {.what = fmt::format("{} is not a list of cores", escaped(text)),
           .where = "--bind_core_list",
           .remedy = "write numbers and ranges, such as 1,3-5,7"});
    }
    for (int core = *first; core <= *last; ++core) {
      cores.push_back(core);
    }
  }
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return cores;
}

} // namespace cairn::launch
