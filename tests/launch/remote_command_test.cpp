#include "launch/internal/remote_command.h"
#include "launch/internal/shell_quote.h"
#include "launch/launched.h"

#include <cairn/base/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

namespace cairn::launch::remote_command_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const std::vector<std::string> nasty = {
    "plain",
    "",
    "two words",
    "it's \"quoted\"",
    "$HOME `id` $(id) ${x}",
    "line\nbreak\n",
    "tab\tand \\ backslash\\",
    "*?[a-z]~!#&|;<>(){}",
    "--flag=a b",
    "-n",
    "üñí\xff\x01"};

TEST(ShellQuote, IsReadBackByAShell) {
  // `printf %s\\0` keeps every byte apart from NUL, which no argument has.
  const auto result =
      testing::run({"sh", "-c", "printf '%s\\001|' " + shell_join(nasty)});
  std::string expected;
  for (const std::string& word : nasty) {
    expected += word + "\x01|";
  }
  EXPECT_EQ(result.out, expected);
}

TEST(RemoteCommand, SurvivesTheShellOnTheOtherSide) {
  const testing::TemporaryFolder folder;
  const auto directory = folder.path() / "it's a $folder";
  std::filesystem::create_directory(directory);
  const auto script = folder.write_script(
      "launcher's name",
      "#!/bin/sh\npwd\necho \"$NASTY\"\nprintf '<%s>' \"$@\"\n");
  RemoteLauncher launcher{
      .executable = script,
      .directory = directory,
      .environment = {{"NASTY", nasty[4]}},
      .arguments = nasty};
  const auto result = testing::run({"sh", "-c", remote_command(launcher)});
  EXPECT_EQ(result.code, 0) << result.err;
  std::string expected = directory.string() + "\n" + nasty[4] + "\n";
  for (const std::string& word : nasty) {
    expected += "<" + word + ">";
  }
  EXPECT_EQ(result.out, expected);
}

TEST(RemoteCommand, FailsWhereTheFolderIsMissing) {
  const auto result = testing::run(
      {"sh",
       "-c",
       remote_command(
           {.executable = "/bin/echo", .directory = "/no/such folder"})});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("/no/such folder"));
  EXPECT_EQ(result.out, "");
}

TEST(RemoteCommand, GoesThroughSshAsOneWord) {
  const auto result =
      testing::run(over_ssh("printf '<%s>' -p 22", "host", "a 'b' $c"));
  EXPECT_EQ(result.out, "<-p><22><host><a 'b' $c>");
}

TEST(ThisMachine, IsKnownByItsNames) {
  std::array<char, 256> buffer{};
  ASSERT_EQ(::gethostname(buffer.data(), buffer.size() - 1), 0);
  const std::string own = buffer.data();
  EXPECT_TRUE(is_this_machine("localhost"));
  EXPECT_TRUE(is_this_machine("127.0.0.1"));
  EXPECT_TRUE(is_this_machine(own));
  EXPECT_TRUE(is_this_machine(own.substr(0, own.find('.'))));
  EXPECT_FALSE(is_this_machine(own + "x"));
  EXPECT_FALSE(is_this_machine("worker-1"));
}

TEST(ExportedVariables, AreThoseOfAllowedFamilies) {
  EXPECT_THAT(
      exported_variables(
          {"PATH=/bin:/usr/bin",
           "HOME=/root",
           "NCCL_DEBUG=INFO=1",
           "PYTHONPATH=",
           "LD_LIBRARY_PATH=/lib",
           "OMP_NUM_THREADS=2",
           "GLOO_SOCKET_IFNAME=eth0",
           "CUDA_VISIBLE_DEVICES=1",
           "CUDA_DEVICE_MAX_CONNECTIONS=1",
           "SECRET_TOKEN=x",
           "NCCL-odd%%=()",
           "PATHOLOGY=no",
           "NCCL_NOVALUE"}),
      ElementsAre(
          Pair("PATH", "/bin:/usr/bin"),
          Pair("NCCL_DEBUG", "INFO=1"),
          Pair("PYTHONPATH", ""),
          Pair("LD_LIBRARY_PATH", "/lib"),
          Pair("OMP_NUM_THREADS", "2"),
          Pair("GLOO_SOCKET_IFNAME", "eth0"),
          Pair("CUDA_DEVICE_MAX_CONNECTIONS", "1")));
}

TEST(EnvironmentFile, HasAVariableOnEachLine) {
  EXPECT_THAT(
      parse_environment_file("A=1\n\n# c\n B = x y=z \r\nC=", "env"),
      ElementsAre(Pair("A", "1"), Pair("B", "x y=z"), Pair("C", "")));
}

TEST(EnvironmentFile, NamesTheLineOfAnError) {
  using namespace std::string_literals;
  for (const std::string& bad :
       {"A"s, "=1"s, "1A=2"s, "A B=1"s, "export A=1"s, "$(x)=1"s, "A=\0b"s}) {
    try {
      parse_environment_file("X=1\n" + bad, "env");
      ADD_FAILURE() << bad;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("env:2: bad line"));
    }
  }
}

} // namespace
} // namespace cairn::launch::remote_command_test
