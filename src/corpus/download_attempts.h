#pragma once

#include <cairn/base/log.h>
#include <cairn/corpus/download.h>

#include "corpus/http_get.h"

#include <functional>
#include <string>
#include <vector>

namespace cairn::corpus {

/// An HttpRequest with the options' timeouts.
HttpRequest http_request(
    const std::string& address,
    const DownloadOptions& options);

struct Attempt {
  HttpResult result;
  bool progressed = false; ///< bytes came: a long transfer may break often
};

/// Makes attempts, address by address, until one is complete, and returns that
/// address. Transient failures are tried again after a wait, others lead to the
/// next address. When none is left it is a DataError with what was tried;
/// `by_hand` tells what a person can do instead.
std::string try_addresses(
    const std::string& what,
    const std::vector<std::string>& addresses,
    const std::function<std::string()>& by_hand,
    const DownloadOptions& options,
    const Logger& log,
    const std::function<Attempt(const std::string& address)>& attempt);

} // namespace cairn::corpus
