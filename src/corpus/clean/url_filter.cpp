#include "corpus/clean/url_filter.h"

#include "base/internal/ascii_case.h"
#include "base/internal/ascii_kind.h"
#include "corpus/clean/blocked_urls.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace cairn::corpus {
namespace {

/// The part after "http://" or "https://"; empty without either.
std::string_view behind_scheme(std::string_view url) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (lower_case(url.substr(0, scheme.size())) == scheme) {
      return url.substr(scheme.size());
    }
  }
  return {};
}

/// Splits "a.b.c" at its dots.
std::vector<std::string_view> labels_of(std::string_view host) {
  std::vector<std::string_view> labels;
  while (true) {
    const std::size_t dot = host.find('.');
    labels.push_back(host.substr(0, dot));
    if (dot == std::string_view::npos) {
      return labels;
    }
    host.remove_prefix(dot + 1);
  }
}

bool is_address_number(const std::vector<std::string_view>& labels) {
  return labels.size() == 4 &&
      std::all_of(labels.begin(), labels.end(), [](std::string_view each) {
           return !each.empty() && each.size() <= 3 &&
               std::all_of(each.begin(), each.end(), is_ascii_digit);
         });
}

bool is_label(std::string_view label) {
  constexpr std::size_t longest = 63;
  return !label.empty() && label.size() <= longest && label.front() != '-' &&
      label.back() != '-' &&
      std::all_of(label.begin(), label.end(), [](char c) {
        return is_ascii_letter(c) || is_ascii_digit(c) || c == '-';
      });
}

bool is_host(std::string_view host) {
  const auto labels = labels_of(host);
  if (is_address_number(labels)) {
    return true;
  }
  if (host.ends_with('.')) {
    host.remove_suffix(1);
  }
  const auto names = labels_of(host);
  // The last label may have dashes anywhere, as in "xn--p1ai".
  return names.size() >= 2 && names.back().size() >= 2 &&
      std::all_of(names.begin(), names.end() - 1, is_label) &&
      std::all_of(names.back().begin(), names.back().end(), [](char c) {
           return is_ascii_letter(c) || is_ascii_digit(c) || c == '-';
         });
}

bool is_well_formed(std::string_view url) {
  const std::string_view rest = behind_scheme(url);
  const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view host = rest.substr(0, end);
  const std::size_t colon = host.find(':');
  if (colon != std::string_view::npos) {
    const std::string_view port = host.substr(colon + 1);
    if (port.empty() ||
        !std::all_of(port.begin(), port.end(), is_ascii_digit)) {
      return false;
    }
    host = host.substr(0, colon);
  }
  const std::string_view path = rest.substr(end);
  return is_host(host) && path != "?" &&
      std::none_of(path.begin(), path.end(), [](char c) {
           return std::isspace(static_cast<unsigned char>(c)) != 0;
         });
}

/// The host: "news.bbc.co.uk" for "https://user@News.BBC.co.uk:80/x".
std::string host_of(std::string_view url) {
  if (const std::size_t scheme = url.find("://");
      scheme != std::string_view::npos) {
    url.remove_prefix(scheme + 3);
  }
  url = url.substr(0, url.find_first_of("/?#"));
  url = url.substr(url.rfind('@') + 1); // npos + 1 is 0
  url = url.substr(0, url.find(':'));
  if (url.ends_with('.')) {
    url.remove_suffix(1);
  }
  return lower_case(url);
}

} // namespace

std::string registered_name(std::string_view url) {
  const std::string host = host_of(url);
  const auto labels = labels_of(host);
  if (is_address_number(labels)) {
    return "";
  }
  // Below country domains, names are often registered one level further down.
  static constexpr std::array<std::string_view, 22> second_levels{
      "ac",  "asn", "co",  "com",  "edu", "firm", "gen", "go",
      "gob", "gov", "ind", "info", "ltd", "me",   "mil", "ne",
      "net", "nom", "or",  "org",  "plc", "sch"};
  static_assert(std::is_sorted(second_levels.begin(), second_levels.end()));
  const std::size_t count = labels.size();
  const bool two_level = count >= 3 && labels[count - 1].size() == 2 &&
      std::binary_search(second_levels.begin(),
                         second_levels.end(),
                         labels[count - 2]);
  const std::size_t suffix = two_level ? 2 : 1;
  return count > suffix ? std::string(labels[count - suffix - 1])
      : count == 1      ? host
                        : "";
}

UrlFilter::UrlFilter(const std::vector<std::string>& more_domains) {
  for (const std::string_view name : blocked_domains()) {
    domains_.emplace(name);
  }
  for (const std::string& domain : more_domains) {
    const std::string host = host_of(domain);
    if (!host.empty()) {
      (host.find('.') == std::string::npos ? domains_ : hosts_).insert(host);
    }
  }
}

bool UrlFilter::is_blocked(std::string_view url) const {
  if (domains_.contains(registered_name(url))) {
    return true;
  }
  if (hosts_.empty()) {
    return false;
  }
  const std::string host = host_of(url);
  for (std::string_view rest = host;;) {
    if (hosts_.contains(rest)) {
      return true;
    }
    const std::size_t dot = rest.find('.');
    if (dot == std::string_view::npos) {
      return false;
    }
    rest.remove_prefix(dot + 1);
  }
}

UrlVerdict UrlFilter::judge(std::string_view url) const {
  constexpr std::size_t longest_short = 8;
  if (is_blocked(url)) {
    return UrlVerdict::blocked_domain;
  }
  constexpr std::size_t longest_extension = 8;
  std::string_view path = url.substr(0, url.find('?'));
  path.remove_prefix(path.size() - std::min(path.size(), longest_extension));
  const std::string ending = lower_case(path);
  const auto extensions = blocked_extensions();
  if (std::any_of(extensions.begin(), extensions.end(), [&](auto each) {
        return ending.ends_with(each);
      })) {
    return UrlVerdict::blocked_extension;
  }
  if (url.size() <= longest_short) {
    return UrlVerdict::too_short;
  }
  return is_well_formed(url) ? UrlVerdict::fine : UrlVerdict::malformed;
}

} // namespace cairn::corpus
