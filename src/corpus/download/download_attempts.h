#pragma once

#include <cairn/base/log.h>

#include "corpus/download/http_get.h"
#include "corpus/internal/download.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace cairn::corpus {

/// A request with the timeouts of `options`.
HttpRequest http_request(
    const std::string& address,
    const DownloadOptions& options);

/// The number of attempts. An unreachable host is tried only twice: with no
/// network at all, a person should not wait long to learn that.
int attempts_for(HttpEnd end, const DownloadOptions& options);

/// The time to wait after that many failed attempts in a row.
std::chrono::milliseconds wait_before(
    int attempt,
    const HttpResult& last,
    const DownloadOptions& options);

struct Attempt {
  HttpResult result;
  bool progressed = false; ///< new bytes came
};

/// Makes attempts, address by address, until one is complete, and returns that
/// address. After a transient failure it waits and tries again; after any other
/// failure it goes on to the next address. Throws DataError with everything
/// that was tried when no address is left; `by_hand` says what a person can do
/// instead.
std::string try_addresses(
    const std::string& what,
    const std::vector<std::string>& addresses,
    const std::function<std::string()>& by_hand,
    const DownloadOptions& options,
    const Logger& log,
    const std::function<Attempt(const std::string& address)>& attempt);

} // namespace cairn::corpus
