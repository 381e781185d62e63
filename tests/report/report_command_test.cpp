// `cairn report`, run as a user would.

#include "support/browser.h"
#include "support/command.h"
#include "support/http_client.h"
#include "support/http_server.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace cairn::report::command_test {
namespace {

using ::testing::AllOf;
using testing::ask;
using testing::body_of;
using testing::Command;
using testing::get;
using ::testing::HasSubstr;
using testing::Result;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using testing::unused_port;
using testing::Words;

Words report(Words words) {
  words.insert(words.begin(), {CAIRN_BINARY_DIR "/bin/cairn", "report"});
  return words;
}

TEST(ReportCommand, WritesAPage) {
  const TemporaryFolder folder;
  folder.write("log.jsonl", "{\"step\":1,\"lm loss\":5}\n");
  const Result result = testing::run(report({folder.path().string()}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, (folder / "report.html").string() + " of 1 run\n");
  EXPECT_THAT(
      testing::read_text(folder / "report.html"),
      StartsWith("<!doctype html>"));
}

TEST(ReportCommand, RefusesWhatMakesNoSense) {
  const TemporaryFolder folder;
  EXPECT_EQ(testing::run(report({})).code, 2);
  EXPECT_EQ(testing::run(report({"x", "--port", "1"})).code, 2);
  EXPECT_EQ(testing::run(report({"x", "--watch", "--output", "y"})).code, 2);
  const Result missing = testing::run(report({(folder / "nothing").string()}));
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("there is no such file or folder"));
}

TEST(ReportCommand, FollowsARunUntilCtrlC) {
  const TemporaryFolder folder;
  const int port = unused_port();
  Command watching(report(
      {folder.path().string(), "--watch", "--port", std::to_string(port)}));
  watching.wait_for("http://127.0.0.1:" + std::to_string(port) + "/");

  const std::string before = get(port, "/");
  EXPECT_THAT(before, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(before, HasSubstr("\"runs\":[]"));

  const auto log = folder.write("log.jsonl", "{\"step\":1,\"lm loss\":5}\n");
  const auto body = [](const std::string& reply) {
    return nlohmann::json::parse(body_of(reply));
  };
  const auto first = body(get(port, "/data.json?after=0"));
  EXPECT_EQ(first["runs"][0]["last_step"], 1);
  const std::string same = "/data.json?after=" + first["version"].dump();
  EXPECT_THAT(get(port, same), StartsWith("HTTP/1.1 204 "));
  std::ofstream(log, std::ios::app) << "{\"step\":2,\"lm loss\":4}\n{\"st";
  EXPECT_EQ(body(get(port, same))["runs"][0]["last_step"], 2);

  EXPECT_THAT(get(port, "/../etc/passwd"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(
      ask(port,
          "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"),
      StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(
      ask(port, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"),
      StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(
      ask(port,
          "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"),
      StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(ask(port, "\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(port, "nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(
      ask(port, "GET / HTTP/1.1\r\n" + std::string(20 << 10, 'x')),
      StartsWith("HTTP/1.1 431 "));

  const Result taken = testing::run(report(
      {folder.path().string(), "--watch", "--port", std::to_string(port)}));
  EXPECT_EQ(taken.code, 2);
  EXPECT_THAT(
      taken.err,
      AllOf(
          HasSubstr("another program listens there already"),
          HasSubstr("--port")));

  watching.send(SIGINT);
  const Result ended = watching.finish();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
}

class ReportInABrowser : public testing::BrowserTest {};

TEST_F(ReportInABrowser, TheLivePageFollowsInABrowser) {
  const TemporaryFolder folder;
  const auto log = folder.write("log.jsonl", "{\"step\":1,\"lm loss\":5}\n");
  Command watching(report({folder.path().string(), "--watch", "--port", "0"}));
  watching.wait_for(" until Ctrl-C");
  const std::string& said = watching.out();
  const std::string address = said.substr(0, said.find(' '));
  testing::Browser browser;
  const auto seen = browser.look(address, 900, 7000);
  EXPECT_EQ(seen.console, "");
  EXPECT_THAT(
      seen.document,
      AllOf(
          HasSubstr("data-chart=\"Loss\""),
          HasSubstr("<span class=\"live right\">live</span>")));
  watching.send(SIGTERM);
  EXPECT_EQ(watching.finish().code, 0);
}

} // namespace
} // namespace cairn::report::command_test
