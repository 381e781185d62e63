#include "corpus/download/public_network.h"

#include "base/internal/ascii_case.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace cairn::corpus {
namespace {

struct Network {
  std::uint32_t first;
  int bits;
};

constexpr std::uint32_t v4(
    std::uint32_t a,
    std::uint32_t b = 0,
    std::uint32_t c = 0) {
  return a << 24 | b << 16 | c << 8;
}

bool is_public(std::uint32_t address) {
  // RFC 6890, and 224.0.0.0 upwards: groups of receivers and what is reserved.
  static constexpr std::array networks{
      Network{v4(0), 8},
      Network{v4(10), 8},
      Network{v4(100, 64), 10},
      Network{v4(127), 8},
      Network{v4(169, 254), 16},
      Network{v4(172, 16), 12},
      Network{v4(192, 0, 0), 24},
      Network{v4(192, 168), 16},
      Network{v4(198, 18), 15},
      Network{v4(224), 3}};
  return std::ranges::none_of(networks, [&](const Network& each) {
    return (address ^ each.first) >> (32 - each.bits) == 0;
  });
}

std::uint32_t number_at(const in6_addr& address, int at) {
  std::uint32_t number = 0;
  std::memcpy(&number, address.s6_addr + at, sizeof number);
  return ntohl(number);
}

bool is_public(const in6_addr& address) {
  const std::uint32_t first = number_at(address, 0);
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    return is_public(number_at(address, 12));
  }
  if (first >> 16 == 0x2002) { // 6to4 holds an address of version 4
    return is_public(number_at(address, 2));
  }
  if (first == 0x0064ff9b) { // so does NAT64
    return is_public(number_at(address, 12));
  }
  return first >> 29 == 1; // 2000::/3 is what has been given out
}

} // namespace

bool is_public(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    return is_public(ntohl(four.sin_addr.s_addr));
  }
  return address.sa_family == AF_INET6 &&
      is_public(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

std::string shown_network(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* const number = address.sa_family == AF_INET
      ? static_cast<const void*>(
            &reinterpret_cast<const sockaddr_in&>(address).sin_addr)
      : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  ::inet_ntop(address.sa_family, number, text.data(), text.size());
  return text.data();
}

bool has_proxy(std::string_view address) {
  // As curl looks for them: an empty one is none, and the name in lower case
  // comes first. HTTP_PROXY is a header of CGI, and does not count.
  const auto value = [](const char* lower, const char* upper) {
    for (const char* const name : {lower, upper}) {
      const char* const text = name != nullptr ? std::getenv(name) : nullptr;
      if (text != nullptr && *text != '\0') {
        return std::string_view(text);
      }
    }
    return std::string_view();
  };
  if (value("no_proxy", "NO_PROXY") == "*") {
    return false;
  }
  const bool secure =
      lower_case(address.substr(0, address.find(':'))) == "https";
  return !(secure ? value("https_proxy", "HTTPS_PROXY")
                  : value("http_proxy", nullptr))
              .empty() ||
      !value("all_proxy", "ALL_PROXY").empty();
}

} // namespace cairn::corpus
