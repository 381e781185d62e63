#pragma once

#include <cairn/base/error.h>

#include <string>
#include <utility>

namespace cairn::serve {

/// A request that cannot be answered, with the HTTP status that says so.
class ApiError : public Error {
 public:
  ApiError(int status, std::string message)
      : Error({.what = std::move(message)}), status_(status) {}
  int status() const noexcept { return status_; }

 private:
  int status_;
};

} // namespace cairn::serve
