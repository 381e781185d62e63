#pragma once

#include "corpus/internal/download.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::corpus {

struct PageOptions {
  /// Lists of addresses, one at the beginning of each line; "-" is stdin.
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path output = "-";
  /// File of the addresses without a page; empty: none is written.
  std::filesystem::path failures{};
  std::size_t jobs = 32; ///< requests at a time, each to another server
  /// Between the end of a request and the next one to the same server.
  std::chrono::milliseconds delay{1'000};
  std::chrono::milliseconds longest_time{60'000}; ///< for one page
  std::size_t largest_page = 4 << 20;             ///< in bytes, when unpacked
  std::size_t least_text = 200; ///< bytes of text that make a page
  std::string user_agent = "cairn-data-pages";
  bool robots = true; ///< do what robots.txt says
  /// Fetches from private networks and this machine, too.
  bool private_networks = false;
  DownloadOptions transfer{.attempts = 3}; ///< waits, timeouts, redirects
  /// Called with the number of addresses that are done.
  std::function<void(std::uint64_t)> on_progress{};
};

/// Why an address gives no page.
enum class PageFailure {
  address,     ///< malformed, or of a private network
  robots,      ///< robots.txt forbids it
  unreachable, ///< no such server
  too_slow,
  connection, ///< broken, or no TLS
  status,     ///< such as 404
  redirect,   ///< too many, or to another scheme
  type,       ///< a picture, a PDF, …
  too_large,
  too_short,
};
inline constexpr std::size_t page_failures = 10;
std::string_view name_of(PageFailure failure);

struct PageReport {
  std::uint64_t read = 0;
  std::uint64_t repeated = 0; ///< addresses that stood in the lists before
  std::uint64_t earlier = 0;  ///< done by an earlier run that was interrupted
  // With those of the earlier run:
  std::uint64_t pages = 0;
  std::uint64_t text_bytes = 0;
  std::array<std::uint64_t, page_failures> failed{};
};

/// Fetches the pages of all addresses and writes their main text, a line
/// {"url", "title", "text"} per page, in the order in which they come. Until
/// all are done the file has the name OUTPUT.part, and another run with the
/// same output continues it. Throws DataError if a file cannot be read or
/// written, or if no server can be reached.
PageReport fetch_pages(const PageOptions& options);

/// The number of addresses in lists that are no stdin.
std::uint64_t count_addresses(const std::vector<std::filesystem::path>& inputs);

} // namespace cairn::corpus
