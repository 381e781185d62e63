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

/// The name that somebody registered: "bbc" of "https://news.bbc.co.uk/x".
/// Empty when the URL has none, as with a number for a host.
std::string registered_name(std::string_view url);

/// The rules of the OpenWebText recipe: sites that are not worth reading as
/// text (pictures, videos, shops, social networks), files that are no pages,
/// and what is no web address at all. In that order, which decides what is
/// counted.
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
