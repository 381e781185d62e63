#include "http/same_site.h"

#include <algorithm>
#include <cctype>

namespace cairn::http {
namespace {

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

} // namespace

bool is_this_machine(std::string_view host) {
  const auto colon = host.rfind(':');
  if (colon != host.npos && host.find(']', colon) == host.npos) {
    host = host.substr(0, colon);
  }
  return host == "127.0.0.1" || same_name(host, "localhost") || host == "[::1]";
}

bool is_same_site(std::string_view origin, std::string_view host) {
  if (origin.empty()) {
    return true;
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) {
      return same_name(origin.substr(scheme.size()), host);
    }
  }
  return false;
}

} // namespace cairn::http
