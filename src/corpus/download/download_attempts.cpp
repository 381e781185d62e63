#include "corpus/download/download_attempts.h"

#include <cairn/base/error.h>

#include "corpus/internal/web_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace cairn::corpus {
namespace {

/// Tries one address until it is complete, refused, or has failed too often.
HttpResult try_address(
    const std::string& address,
    const DownloadOptions& options,
    const Logger& log,
    const std::function<Attempt(const std::string&)>& attempt,
    int& tried) {
  int in_a_row = 0;
  for (tried = 1;; ++tried) {
    const Attempt now = attempt(address);
    in_a_row = now.progressed ? 1 : in_a_row + 1;
    const auto& result = now.result;
    if (result.end == HttpEnd::complete ||
        in_a_row >= attempts_for(result.end, options)) {
      return result;
    }
    const auto wait = wait_before(in_a_row, result, options);
    log.warning(
        "{}: {}; trying again in {:.1f} s",
        shown_address(address),
        result.trouble,
        std::chrono::duration<double>(wait).count());
    std::this_thread::sleep_for(wait);
  }
}

} // namespace

int attempts_for(HttpEnd end, const DownloadOptions& options) {
  switch (end) {
    case HttpEnd::transient:
      return options.attempts;
    case HttpEnd::unreachable:
      return std::min(options.attempts, 2);
    default:
      return 1;
  }
}

std::chrono::milliseconds wait_before(
    int attempt,
    const HttpResult& last,
    const DownloadOptions& options) {
  auto wait = options.first_wait;
  for (int i = 1; i < attempt && wait < options.longest_wait; ++i) {
    wait *= 2;
  }
  if (last.retry_after) {
    wait = std::max<std::chrono::milliseconds>(wait, *last.retry_after);
  }
  return std::min(wait, options.longest_wait);
}

HttpRequest http_request(
    const std::string& address,
    const DownloadOptions& options) {
  return {
      .address = address,
      .certificates = options.certificates,
      .connect_timeout = options.connect_timeout,
      .stall_timeout = options.stall_timeout,
      .redirects = options.redirects};
}

std::string try_addresses(
    const std::string& what,
    const std::vector<std::string>& addresses,
    const std::function<std::string()>& by_hand,
    const DownloadOptions& options,
    const Logger& log,
    const std::function<Attempt(const std::string& address)>& attempt) {
  std::string failures;
  bool unreachable = true;
  for (const auto& address : addresses) {
    int tried = 0;
    const HttpResult result =
        try_address(address, options, log, attempt, tried);
    if (result.end == HttpEnd::complete) {
      return address;
    }
    unreachable = unreachable && result.end == HttpEnd::unreachable;
    failures += fmt::format(
        "\n  {}: {}{}",
        shown_address(address),
        result.trouble,
        tried > 1 ? fmt::format(" ({} tries)", tried) : "");
  }
  throw DataError(
      {.what = fmt::format(
           "cannot download {}{}",
           what,
           unreachable ? ", no server can be reached" : ""),
       .remedy = fmt::format("tried:{}{}", failures, by_hand())});
}

} // namespace cairn::corpus
