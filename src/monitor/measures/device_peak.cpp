#include "monitor/internal/device_peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace cairn::monitor {
namespace {

struct PeakEntry {
  std::string_view name; ///< words of the device's name, in this order
  double half;           ///< TFLOP/s, dense
  double full;
};

// A longer name comes before a name it contains. NVIDIA's data sheets give the
// 16-bit figures of recent devices with sparsity, which are twice these.
constexpr std::array peaks = std::to_array<PeakEntry>({
    {"GB300", 2500, 80},
    {"B300", 2250, 75},
    {"GB200", 2500, 80},
    {"B200", 2250, 75},
    {"GH200", 989.5, 67},
    {"H200 NVL", 835.5, 60},
    {"H200", 989.5, 67},
    {"H100 PCIe", 756, 51},
    {"H100 NVL", 835.5, 60},
    {"H100", 989.5, 67},
    {"H800 PCIe", 756, 51},
    {"H800", 989.5, 67},
    {"H20", 148, 44},
    {"A100", 312, 19.5},
    {"A800", 312, 19.5},
    {"A30", 165, 10.3},
    {"A40", 149.7, 37.4},
    {"A10G", 70, 35},
    {"A10", 125, 31.2},
    {"L40S", 362, 91.6},
    {"L40", 181, 90.5},
    {"L4", 121, 30.3},
    {"T4", 65, 8.1},
    {"V100", 125, 15.7},
    {"RTX 6000 Ada", 364, 91.1},
    {"RTX A6000", 154.8, 38.7},
    {"RTX 5090", 209.5, 104.8},
    {"RTX 4090", 165.2, 82.6},
    {"RTX 4080", 97.5, 48.7},
    {"RTX 3090", 71, 35.6},
    {"RTX 3080", 59.5, 29.8},
});

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

/// True when `words` occurs as whole words: "A10" is not in "NVIDIA
/// A100-SXM4-40GB".
bool has_words(std::string_view text, std::string_view words) {
  for (std::size_t at = text.find(words); at != text.npos;
       at = text.find(words, at + 1)) {
    const std::size_t end = at + words.size();
    if ((at == 0 || !is_word_character(text[at - 1])) &&
        (end == text.size() || !is_word_character(text[end]))) {
      return true;
    }
  }
  return false;
}

} // namespace

std::optional<DevicePeak> known_peak(
    std::string_view device,
    Arithmetic arithmetic) {
  const auto found =
      std::find_if(peaks.begin(), peaks.end(), [&](const PeakEntry& entry) {
        return has_words(device, entry.name);
      });
  if (found == peaks.end()) {
    return std::nullopt;
  }
  const bool half = arithmetic == Arithmetic::half;
  const double tera = half ? found->half : found->full;
  return DevicePeak{
      tera * 1e12,
      fmt::format(
          "{} TFLOP/s of {} ({})",
          tera,
          found->name,
          half ? "dense, 16 bits" : "fp32")};
}

DevicePeak stated_peak(double teraflops) {
  return {teraflops * 1e12, fmt::format("{} TFLOP/s as stated", teraflops)};
}

} // namespace cairn::monitor
