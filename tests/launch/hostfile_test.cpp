#include "launch/internal/hostfile.h"
#include "launch/launched.h"

#include <cairn/base/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::launch::hostfile_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Hostfile, IsReadInOrder) {
  EXPECT_THAT(
      parse_hostfile(
          "# the cluster\n"
          "worker-1 slots=2\n"
          "\n"
          "  worker-0\tslots=1  # the old one\r\n"
          "10.0.0.7 slots=3",
          "hosts"),
      ElementsAre(
          Host{"worker-1", {0, 1}},
          Host{"worker-0", {0}},
          Host{"10.0.0.7", {0, 1, 2}}));
}

std::string message(std::string_view text) {
  try {
    parse_hostfile(text, "hosts");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Hostfile, NamesTheLineOfAnError) {
  EXPECT_THAT(
      message("a slots=1\n\nb\n"),
      HasSubstr("hosts:3: bad line \"b\""));
  EXPECT_THAT(
      message("a slots=1\n# c\na slots=2"),
      HasSubstr("hosts:3: host a is there twice, first on line 1"));
  for (const char* line :
       {"a slots=0",
        "a slots=-1",
        "a slots=",
        "a slots=x",
        "a slots=4x",
        "a slots=99999999999999999999",
        "a slots=4097",
        "a slot=1",
        "a slots=1 slots=2",
        "a slots = 1"}) {
    EXPECT_THAT(message(line), HasSubstr("hosts:1: bad line")) << line;
    EXPECT_THAT(message(line), HasSubstr("\"a slots=N\"")) << line;
  }
}

TEST(Hostfile, RefusesNamesThatAreMoreThanNames) {
  using namespace std::string_literals;
  for (const std::string& name :
       {"-oProxyCommand=x"s,
        "a;b"s,
        "$(x)"s,
        "a:0"s,
        "me@a"s,
        "a,b"s,
        "\0a"s,
        "\xff"s,
        "a\x1b[2J"s,
        std::string(300, 'a')}) {
    EXPECT_THAT(message(name + " slots=1"), HasSubstr("hosts:1: \"")) << name;
    EXPECT_THAT(message(name + " slots=1"), HasSubstr("is not a host name"));
  }
  EXPECT_THAT(message("\x1b[2J slots=1"), HasSubstr("\\x1b[2J"));
}

TEST(Hostfile, MustNameAHost) {
  for (const char* text : {"", "\n\n", "# nothing\n", " \t\n"}) {
    EXPECT_THAT(message(text), HasSubstr("hosts: the host file names no host"));
  }
}

TEST(Hostfile, ThatIsNotThereIsAnError) {
  EXPECT_THROW(read_hostfile("/no/such/hostfile"), Error);
  const testing::TemporaryFolder folder;
  EXPECT_THAT(
      read_hostfile(folder.write("hosts", "a slots=1\n")),
      ElementsAre(Host{"a", {0}}));
}

} // namespace
} // namespace cairn::launch::hostfile_test
