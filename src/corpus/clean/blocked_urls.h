#pragma once

#include <span>
#include <string_view>

namespace cairn::corpus {

/// Registered names of sites that the OpenWebText recipe leaves out: pictures,
/// videos, shops, social networks and malicious sites.
std::span<const std::string_view> blocked_domains();

/// Endings of addresses that are no pages, in lower case.
std::span<const std::string_view> blocked_extensions();

} // namespace cairn::corpus
