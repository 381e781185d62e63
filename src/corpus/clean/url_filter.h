#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::corpus {

enum class UrlVerdict {
  fine,
  blocked_domain,
  blocked_extension,
  too_short,
  malformed,
};

/// The registered name in a URL: "bbc" for "https://news.bbc.co.uk/x". Empty
/// when there is none, as with a number for a host.
std::string registered_name(std::string_view url);

/// The rules of the OpenWebText recipe. They drop sites that are not worth
/// reading as text (pictures, videos, shops, social networks), files that are
/// no pages, and URLs that are no web address. The rules apply in that order,
/// which decides under which reason a URL is counted.
class UrlFilter {
 public:
  /// `more_domains` are blocked as well: "example" is a registered name below
  /// any top level, "example.com" that host and all below it.
  explicit UrlFilter(const std::vector<std::string>& more_domains = {});

  UrlVerdict judge(std::string_view url) const;

 private:
  bool is_blocked(std::string_view url) const;

  std::set<std::string, std::less<>> domains_; ///< registered names
  std::set<std::string, std::less<>> hosts_;
};

} // namespace cairn::corpus
