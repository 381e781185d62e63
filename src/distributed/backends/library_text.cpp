#include "distributed/backends/library_text.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace cairn::distributed {

std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  // Cut "[/pytorch/third_party/…/pair.cc:547] ": where the library was built
  // says nothing to the user.
  const std::size_t begin = text.find("[/");
  const std::size_t end = text.find("] ", begin);
  if (begin != std::string::npos && end != std::string::npos) {
    text.erase(begin, end + 2 - begin);
  }
  return text.empty() ? "no reason given" : text;
}

std::string library_text(const std::exception& error) {
  const auto* theirs = dynamic_cast<const c10::Error*>(&error);
  return first_line(theirs ? theirs->what_without_backtrace() : error.what());
}

} // namespace cairn::distributed
