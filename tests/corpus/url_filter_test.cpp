#include "corpus/clean/url_filter.h"
#include "support/fuzz.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::corpus::url_filter_test {
namespace {

TEST(RegisteredName, IsWhatSomebodyBought) {
  EXPECT_EQ(registered_name("https://en.wikipedia.org/wiki/X"), "wikipedia");
  EXPECT_EQ(registered_name("http://news.bbc.co.uk:80/x?y#z"), "bbc");
  EXPECT_EQ(registered_name("https://youtu.be/abc"), "youtu");
  EXPECT_EQ(registered_name("https://user:word@WWW.Redd.it"), "redd");
  EXPECT_EQ(registered_name("https://t.co/x"), "t");
  EXPECT_EQ(registered_name("https://com.au"), "com");
  EXPECT_EQ(registered_name("example.com."), "example");
  EXPECT_EQ(registered_name("example"), "example");
  EXPECT_EQ(registered_name("http://192.168.0.1/youtube"), "");
  EXPECT_EQ(registered_name(""), "");
}

TEST(UrlFilter, FollowsTheRecipe) {
  const UrlFilter filter;
  const auto judge = [&](std::string_view url) { return filter.judge(url); };
  EXPECT_EQ(judge("https://example.org/story"), UrlVerdict::fine);
  EXPECT_EQ(judge("http://example.org"), UrlVerdict::fine);
  EXPECT_EQ(judge("HTTPS://Example.Org:8080/a?b=c"), UrlVerdict::fine);
  EXPECT_EQ(judge("http://10.0.0.1/a"), UrlVerdict::fine);
  EXPECT_EQ(judge("http://xn--e1afmkfd.xn--p1ai/"), UrlVerdict::fine);

  EXPECT_EQ(judge("https://m.youtube.com/watch"), UrlVerdict::blocked_domain);
  EXPECT_EQ(judge("https://amazon.co.uk/x"), UrlVerdict::blocked_domain);
  EXPECT_EQ(judge("https://notyoutube.com/watch"), UrlVerdict::fine);

  EXPECT_EQ(judge("https://a.org/b.PDF?x=1"), UrlVerdict::blocked_extension);
  EXPECT_EQ(judge("https://a.org/b.7z"), UrlVerdict::blocked_extension);
  EXPECT_EQ(judge("https://a.org/b.ai"), UrlVerdict::blocked_extension);
  EXPECT_EQ(judge("https://a.org/pdf"), UrlVerdict::fine);
  EXPECT_EQ(judge("https://a.org/b?c=d.pdf"), UrlVerdict::fine);

  EXPECT_EQ(judge("http://a"), UrlVerdict::too_short);
  EXPECT_EQ(judge(""), UrlVerdict::too_short);

  EXPECT_EQ(judge("ftp://example.org/a"), UrlVerdict::malformed);
  EXPECT_EQ(judge("example.org/a/b/c"), UrlVerdict::malformed);
  EXPECT_EQ(judge("http://-a-.example.org"), UrlVerdict::malformed);
  EXPECT_EQ(judge("http://example.org:x/a"), UrlVerdict::malformed);
  EXPECT_EQ(judge("http://example.org/a b"), UrlVerdict::malformed);
  EXPECT_EQ(judge("http://localhost/a"), UrlVerdict::malformed);
  EXPECT_EQ(judge("http://user@example.org"), UrlVerdict::malformed);
}

TEST(UrlFilter, TakesMoreDomains) {
  const UrlFilter filter({"spam", "junk.co.uk", "user.example.io", "10.0.0.1"});
  for (const char* blocked :
       {"https://a.spam.net/b",
        "https://www.junk.co.uk/b",
        "https://junk.co.uk:80/b",
        "https://user.example.io/",
        "http://10.0.0.1/index"}) {
    EXPECT_EQ(filter.judge(blocked), UrlVerdict::blocked_domain) << blocked;
  }
  for (const char* fine :
       {"https://junk.org/b",
        "https://other.example.io/",
        "http://93.184.216.34/index"}) {
    EXPECT_EQ(filter.judge(fine), UrlVerdict::fine) << fine;
  }
}

TEST(UrlFilter, Fuzz) {
  const UrlFilter filter;
  int fine = 0;
  testing::fuzz(
      {.seeds =
           {"https://user:word@news.bbc.co.uk:80/a/b.html?c=d#e",
            "http://192.168.0.1/x"},
       .pieces = {"://", ".", "..", "@", ":", "/", "?", "#", ".co.uk", "\xff"},
       .runs = 20000},
      [&](const std::string& url) {
        fine += filter.judge(url) == UrlVerdict::fine ? 1 : 0;
        EXPECT_LE(registered_name(url).size(), url.size());
      });
  EXPECT_GT(fine, 0);
}

} // namespace
} // namespace cairn::corpus::url_filter_test
