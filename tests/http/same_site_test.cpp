#include "http/same_site.h"

#include <gtest/gtest.h>

namespace cairn::http::same_site_test {
namespace {

TEST(SameSite, KnowsTheNamesOfThisMachine) {
  for (const char* const name :
       {"127.0.0.1", "localhost", "LocalHost:80", "[::1]", "[::1]:5000"}) {
    EXPECT_TRUE(is_this_machine(name)) << name;
  }
  for (const char* const name :
       {"", "example.org", "127.0.0.1.example.org", "localhost.evil", "::1"}) {
    EXPECT_FALSE(is_this_machine(name)) << name;
  }
}

TEST(SameSite, TellsPagesOfOtherSites) {
  EXPECT_TRUE(is_same_site("", "localhost:5000")) << "no browser";
  EXPECT_TRUE(is_same_site("http://localhost:5000", "localhost:5000"));
  EXPECT_TRUE(is_same_site("https://models.example", "models.example"));
  EXPECT_FALSE(is_same_site("http://localhost:8000", "localhost:5000"));
  EXPECT_FALSE(is_same_site("http://evil.example", "localhost:5000"));
  EXPECT_FALSE(is_same_site("null", "localhost:5000")) << "a file";
}

} // namespace
} // namespace cairn::http::same_site_test
