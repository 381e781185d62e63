#include "base/cpu_model.h"

#include "base/internal/trimmed.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace cairn::inline base {
namespace {

/// The value of the first `key : value` line.
std::optional<std::string_view> field(
    std::string_view text,
    std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos &&
        trimmed(line.substr(0, colon)) == key) {
      return trimmed(line.substr(colon + 1));
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::nullopt;
}

/// Names for the numbers that /proc/cpuinfo shows on ARM, where x86 has a name.
constexpr std::pair<std::string_view, std::string_view> arm_models[] = {
    {"0x41/0xd03", "Cortex-A53"},
    {"0x41/0xd08", "Cortex-A72"},
    {"0x41/0xd0b", "Cortex-A76"},
    {"0x41/0xd0c", "Neoverse-N1"},
    {"0x41/0xd40", "Neoverse-V1"},
    {"0x41/0xd49", "Neoverse-N2"},
    {"0x41/0xd4f", "Neoverse-V2"},
    {"0x41/0xd83", "Neoverse-V3AE"},
    {"0x41/0xd84", "Neoverse-V3"},
    {"0x41/0xd8e", "Neoverse-N3"},
    {"0x43/0x0af", "ThunderX2"},
    {"0x46/0x001", "A64FX"},
    {"0x48/0xd01", "Kunpeng-920"},
    {"0x4e/0x004", "Carmel"},
    {"0x61/0x022", "Apple M1"},
    {"0x61/0x032", "Apple M2"},
    {"0xc0/0xac3", "AmpereOne"},
    {"0xc0/0xac4", "AmpereOne A"},
};

} // namespace

std::string cpu_model(std::string_view cpuinfo) {
  if (const auto name = field(cpuinfo, "model name"); name && !name->empty()) {
    return std::string(*name);
  }
  const auto implementer = field(cpuinfo, "CPU implementer");
  const auto part = field(cpuinfo, "CPU part");
  if (!implementer || !part) {
    return "unknown";
  }
  const std::string numbers = fmt::format("{}/{}", *implementer, *part);
  for (const auto& [known, name] : arm_models) {
    if (known == numbers) {
      return std::string(name);
    }
  }
  return fmt::format("ARM implementer {} part {}", *implementer, *part);
}

} // namespace cairn::base
