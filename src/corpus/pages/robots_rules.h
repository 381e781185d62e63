#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::corpus {

/// What a robots.txt says to one robot, by RFC 9309.
class RobotsRules {
 public:
  /// Everything is allowed.
  RobotsRules() = default;
  /// `robot` is the name by which the file may call it, such as
  /// "cairn-data-pages".
  RobotsRules(std::string_view robots_txt, std::string_view robot);

  /// `path` is that of an address, with its query.
  bool allow(std::string_view path) const;

  /// The time between two requests that the file asks for with Crawl-delay,
  /// which is no part of the RFC but common; at most a minute.
  std::chrono::milliseconds delay() const noexcept { return delay_; }

 private:
  struct Rule {
    std::string pattern; ///< with "*" for any text and "$" for the end
    bool allow = false;
  };

  std::vector<Rule> rules_;
  std::chrono::milliseconds delay_{0};
};

} // namespace cairn::corpus
