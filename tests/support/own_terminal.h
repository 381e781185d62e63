#pragma once

#include <cairn/base/file.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <string>

namespace cairn::testing {

/// A terminal of the test's own, whose output can be read.
class OwnTerminal {
 public:
  OwnTerminal()
      : ours_(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)) {
    ::grantpt(ours_.get());
    ::unlockpt(ours_.get());
    theirs_ =
        UniqueFd(::open(::ptsname(ours_.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  }
  int fd() const { return theirs_.get(); }
  std::string shown() const {
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t got = 0;
         (got = ::read(ours_.get(), buffer.data(), buffer.size())) > 0;) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  UniqueFd ours_;
  UniqueFd theirs_;
};

} // namespace cairn::testing
