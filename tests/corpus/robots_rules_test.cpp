#include "corpus/pages/robots_rules.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::corpus::robots_rules_test {
namespace {

using std::chrono::milliseconds;

bool allows(const std::string& rules, const std::string& path) {
  return RobotsRules("User-agent: *\n" + rules, "robot").allow(path);
}

// The examples of RFC 9309, section 2.2.
TEST(RobotsRules, MatchByTheLongestPattern) {
  EXPECT_TRUE(allows("", "/x"));
  EXPECT_TRUE(allows("Disallow:", "/x"));
  EXPECT_FALSE(allows("Disallow: /", "/x"));
  EXPECT_TRUE(allows("Disallow: /", "/robots.txt"));
  const std::string both =
      "allow: /example/page/\ndisallow: /example/page/disallowed.gif";
  EXPECT_FALSE(allows(both, "/example/page/disallowed.gif"));
  EXPECT_TRUE(allows(both, "/example/page/other.gif"));
  EXPECT_TRUE(allows("disallow: /page\nallow: /page", "/page"));
  EXPECT_FALSE(allows("Disallow: *.gif$", "/a/b.gif"));
  EXPECT_TRUE(allows("Disallow: *.gif$", "/a/b.gif?x"));
  EXPECT_FALSE(allows("Disallow: /foo/*/bar", "/foo/x/y/bar.html"));
  EXPECT_TRUE(allows("Disallow: /foo/*/bar", "/foo/bar"));
  EXPECT_FALSE(allows("Disallow: /a*a$", "/aba"));
  EXPECT_TRUE(allows("Disallow: /a*a$", "/a"));
  EXPECT_FALSE(allows("Disallow: /a%3Cd.html", "/a%3cd.html"));
  EXPECT_FALSE(allows("Disallow: /x$", "/x"));
  EXPECT_TRUE(allows("Disallow: /x$", "/xy"));
}

TEST(RobotsRules, MayBeginWithAByteOrderMark) {
  EXPECT_FALSE(RobotsRules("\xef\xbb\xbfUser-agent: *\nDisallow: /x", "robot")
                   .allow("/x"));
}

TEST(RobotsRules, AreThoseOfTheOwnGroup) {
  const std::string text =
      "\xef\xbb\xbfsitemap: https://a.org/map.xml\n"
      "User-Agent: *\nDisallow: /\nCrawl-delay: 9\n\n"
      "user-agent : other\r\nUSER-AGENT: Robot # me\r\nDisallow: /private\r\n"
      "crawl-delay: 2.5\r\n"
      "User-agent: third\nAllow: /private\n"
      "User-agent: robot\nDisallow: /more\n"
      "no rule\n";
  const RobotsRules own(text, "robot");
  EXPECT_TRUE(own.allow("/"));
  EXPECT_FALSE(own.allow("/private/x"));
  EXPECT_FALSE(own.allow("/more"));
  EXPECT_EQ(own.delay(), milliseconds(2500));
  const RobotsRules stranger(text, "stranger");
  EXPECT_FALSE(stranger.allow("/"));
  EXPECT_EQ(stranger.delay(), milliseconds(9000));
  EXPECT_EQ(
      RobotsRules("User-agent: *\nCrawl-delay: 1e9", "x").delay(),
      milliseconds(60'000));
}

} // namespace
} // namespace cairn::corpus::robots_rules_test
