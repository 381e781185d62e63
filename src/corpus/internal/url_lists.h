#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::corpus {

struct UrlListOptions {
  std::vector<std::filesystem::path> inputs{}; ///< one URL per line
  std::filesystem::path output{};
  /// "example" below any top level, or "example.com" and all below it; beside
  /// those of the OpenWebText recipe.
  std::vector<std::string> more_blocked_domains{};
  /// Told how many bytes of the inputs were read since the last time.
  std::function<void(std::uint64_t)> on_progress{};
};

/// Why a URL is left out, in the order of the checks.
enum class UrlReason { domain, extension, too_short, malformed, duplicate };
inline constexpr std::size_t url_reasons = 5;
std::string_view name_of(UrlReason reason);

struct UrlListReport {
  std::uint64_t read = 0;
  std::uint64_t kept = 0;
  std::array<std::uint64_t, url_reasons> dropped{};
};

/// Writes the URLs of all lists that are worth fetching, each once, in the
/// order of the inputs: the first step of the OpenWebText recipe. Blank lines
/// do not count. Throws DataError if a file cannot be read or written.
UrlListReport filter_url_lists(const UrlListOptions& options);

} // namespace cairn::corpus
