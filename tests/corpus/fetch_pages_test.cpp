// `cairn data pages`, with servers on this machine.

#include "corpus/download/public_network.h"
#include "corpus/pages/page_fetcher.h"
#include "support/command.h"
#include "support/http_server.h"
#include "support/temporary_folder.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <zlib.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace cairn::corpus::fetch_pages_test {
namespace {

using ::testing::AllOf;
using testing::Command;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::HttpAnswer;
using testing::HttpServer;
using ::testing::Not;
using testing::read_text;
using testing::Result;
using testing::Words;

const std::string sentence =
    "This paragraph has more than the twenty words that make one worth "
    "keeping, and it ends with a full stop, as every sentence of it should. ";

HttpAnswer page(const std::string& title, const std::string& body) {
  return {
      .body = "<title>" + title + "</title><nav>menu</nav><p>" + body + "</p>",
      .headers = "Content-Type: text/html; charset=utf-8\r\n"};
}

std::string packed(const std::string& text) {
  std::string out(compressBound(text.size()), '\0');
  uLongf size = out.size();
  EXPECT_EQ(
      compress(
          reinterpret_cast<Bytef*>(out.data()),
          &size,
          reinterpret_cast<const Bytef*>(text.data()),
          text.size()),
      Z_OK);
  out.resize(size);
  return out;
}

/// A fixture with an output that does not exist yet.
class FetchPages : public ::testing::Test {
 protected:
  Words words(const std::string& list, const Words& more = {}) const {
    Words all{
        CAIRN_BINARY_DIR "/bin/cairn",
        "data",
        "pages",
        list,
        "--output",
        output,
        "--private-networks",
        "--delay",
        "0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Result fetch(const std::string& list, const Words& more = {}) const {
    return Command(words(list, more), environment).finish();
  }

  /// The addresses of the failures with their kinds and reasons.
  std::map<std::string, std::string> failures() const {
    std::map<std::string, std::string> all;
    std::istringstream text(read_text(output + ".failed"));
    for (std::string line; std::getline(text, line);) {
      const auto tab = line.find('\t');
      all[line.substr(0, tab)] = line.substr(tab + 1);
    }
    return all;
  }

  /// The pages by their addresses; each may be there once.
  std::map<std::string, nlohmann::json> pages() const {
    std::map<std::string, nlohmann::json> all;
    std::istringstream text(read_text(output));
    for (std::string line; std::getline(text, line);) {
      auto json = nlohmann::json::parse(line);
      const auto address = json.at("url").get<std::string>();
      EXPECT_TRUE(all.emplace(address, std::move(json)).second) << address;
    }
    return all;
  }

  testing::TemporaryFolder folder;
  const std::string output = folder / "pages.jsonl";
  const std::vector<std::pair<std::string, std::string>> environment{
      {"no_proxy", "*"}}; // the servers are on this machine
};

TEST_F(FetchPages, WritesTextsAndReasons) {
  HttpServer server;
  HttpServer other;
  const std::string text = sentence + sentence;
  server.answer("/1", {page("One &amp; only", text)});
  server.answer(
      "/2",
      {{.body = packed("<p>caf\xe9. " + text),
        .headers =
            "Content-Type: text/html\r\nContent-Encoding: deflate\r\n"}});
  server.answer(
      "/plain",
      {{.body = text, .headers = "Content-Type: text/plain\r\n"}});
  server.answer("/moved", {{.status = 301, .location = other.address("/to")}});
  other.answer("/to", {page("Moved", text)});
  server.answer(
      "/busy",
      {{.status = 503, .body = "", .retry_after = "0"}, page("Busy", text)});
  server.answer("/short", {page("Short", "A word.")});
  server.answer(
      "/pdf",
      {{.body = "%PDF", .headers = "Content-Type: application/pdf\r\n"}});
  server.answer("/secret", {page("Secret", text)});
  server.answer(
      "/robots.txt",
      {{.body = "User-agent: cairn-data-pages\nDisallow: /secret\n"}});
  std::string list = "ftp://example.org/file\nno address\n\n";
  for (const char* const path :
       {"/1",
        "/2",
        "/plain",
        "/moved",
        "/busy",
        "/short",
        "/pdf",
        "/secret",
        "/missing",
        "/1#part"}) {
    list += server.address(path) + " some remark\r\n";
  }
  const auto result = fetch(folder.write("list.txt", list));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto found = pages();
  EXPECT_EQ(found.size(), 5U);
  const auto body = sentence + sentence.substr(0, sentence.size() - 1);
  EXPECT_EQ(found.at(server.address("/1")).at("text"), body);
  EXPECT_EQ(found.at(server.address("/1")).at("title"), "One & only");
  EXPECT_EQ(found.at(server.address("/2")).at("text"), "café. " + body);
  EXPECT_EQ(found.at(server.address("/plain")).at("text"), body);
  EXPECT_EQ(found.at(server.address("/moved")).at("title"), "Moved");
  EXPECT_EQ(found.at(server.address("/busy")).at("title"), "Busy");
  const auto failed = failures();
  EXPECT_EQ(failed.size(), 6U);
  EXPECT_THAT(
      failed.at("ftp://example.org/file"),
      HasSubstr("no web address\t"));
  EXPECT_THAT(failed.at("no"), HasSubstr("no web address\t"));
  EXPECT_EQ(failed.at(server.address("/short")), "too short\t0 bytes of text");
  EXPECT_EQ(failed.at(server.address("/pdf")), "no page\tapplication/pdf");
  EXPECT_EQ(
      failed.at(server.address("/secret")),
      "robots.txt\tis forbidden there");
  EXPECT_EQ(
      failed.at(server.address("/missing")),
      "status\tthe server answers 404");
  EXPECT_THAT(
      result.out,
      AllOf(
          ContainsRegex("read +12\n"),
          ContainsRegex("- there before +1\n"),
          ContainsRegex("- no web address +2\n"),
          ContainsRegex("- robots.txt +1\n"),
          ContainsRegex("pages +5, ")));
  EXPECT_FALSE(std::filesystem::exists(output + ".part"));
  int rules = 0;
  for (const auto& question : server.questions()) {
    EXPECT_EQ(question.headers.at("user-agent"), "cairn-data-pages");
    EXPECT_NE(question.path, "/secret");
    rules += question.path == "/robots.txt" ? 1 : 0;
  }
  EXPECT_EQ(rules, 1);

  const auto again = fetch(folder / "list.txt");
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("the output exists already"));
  // The file of failures is a list, too.
  const auto forbidden = fetch(
      output + ".failed",
      {"--overwrite", "--ignore-robots", "--failures", folder / "rest"});
  ASSERT_EQ(forbidden.code, 0) << forbidden.err;
  EXPECT_TRUE(pages().contains(server.address("/secret")));
}

TEST_F(FetchPages, GoesOnAfterKillNine) {
  std::vector<std::unique_ptr<HttpServer>> servers;
  std::string list;
  constexpr int count = 40;
  for (int i = 0; i < 2; ++i) {
    servers.push_back(std::make_unique<HttpServer>());
    for (int k = 0; k < count; ++k) {
      const std::string path = "/" + std::to_string(k);
      HttpAnswer answer = page(path, sentence + sentence);
      answer.pause = std::chrono::milliseconds(10);
      servers.back()->answer(path, {answer});
      list += servers.back()->address(path) + "\n";
    }
    list += servers.back()->address("/none") + "\n";
  }
  const auto file = folder.write("list.txt", list);
  {
    Command first(words(file), environment);
    while (std::ranges::count(read_text(output + ".part"), '\n') < count / 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    first.send(SIGKILL);
    EXPECT_EQ(first.finish().code, 128 + SIGKILL);
  }
  EXPECT_FALSE(std::filesystem::exists(output));
  const std::string part = read_text(output + ".part");
  const auto before = std::ranges::count(part, '\n');
  ASSERT_LT(before, 2 * count);
  // The half of a line that a crash may leave.
  folder.write(
      "pages.jsonl.part",
      part + "{\"url\": \"" + servers[0]->address("/39") + "\", \"te");
  const auto result = fetch(file);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(pages().size(), 2U * count);
  EXPECT_EQ(failures().size(), 2U);
  EXPECT_THAT(result.out, ContainsRegex("pages +80, "));
  EXPECT_THAT(
      result.out,
      ContainsRegex("of an earlier run +" + std::to_string(before)));
  std::size_t asked = 0;
  for (const auto& server : servers) {
    asked += server->questions().size();
  }
  // Beside the pages: /none, robots.txt, and what was on its way, twice.
  EXPECT_LE(asked, 2U * (count + 1 + 2 + 2));
}

TEST_F(FetchPages, HostileServersCostLittle) {
  const std::string type = "Content-Type: text/html\r\n";
  const std::map<std::string, std::pair<HttpAnswer, const char*>> hostile{
      {"/endless",
       {{.body = std::string(3 << 20, 'x'),
         .says_length = false,
         .headers = type},
        "too large\tit has more than 1000000 bytes"}},
      {"/bomb",
       {{.body = packed(std::string(50 << 20, ' ')),
         .headers = type + "Content-Encoding: deflate\r\n"},
        "too large\t"}},
      {"/no-gzip",
       {{.body = "this is not packed",
         .headers = type + "Content-Encoding: gzip\r\n"},
        "broken connection\t"}},
      {"/head",
       {{.body = "HTTP/1.1 200 OK\r\nX: " + std::string(2 << 20, 'x'),
         .whole = true},
        "broken connection\t"}},
      {"/heads",
       {{.body =
             [] {
               std::string head = "HTTP/1.1 200 OK\r\n";
               while (head.size() < (2 << 20)) {
                 head += "X-Header: " + std::string(1000, 'x') + "\r\n";
               }
               return head;
             }(),
         .whole = true},
        "broken connection\t"}},
      {"/junk",
       {{.body = std::string("\0\xff\r\n\r\n", 6), .whole = true},
        "broken connection\t"}},
      {"/slow",
       {{.body = std::string(100, 'x'),
         .pause = std::chrono::milliseconds(100),
         .chunk = 1,
         .headers = type},
        "too slow\t"}},
      {"/cut",
       {{.body = std::string(100, 'x'), .cut_after = 10, .headers = type},
        "broken connection\t"}},
      {"/file",
       {{.status = 302, .location = "file:///etc/passwd"},
        "redirect\tredirected to file:///etc/passwd"}},
      {"/scheme",
       {{.status = 302, .location = "gopher://127.0.0.1:70/x"}, "redirect\t"}},
      {"/long",
       {{.status = 302, .location = "/" + std::string(5000, 'x')},
        "redirect\tis redirected to no web address"}},
      {"/loop",
       {{.status = 302, .location = "/loop"},
        "redirect\tis redirected more than 10 times"}},
      {"/picture",
       {{.body = std::string("\x89PNG\r\n\0\0\0", 9), .headers = type},
        "no page\t"}}};
  std::map<std::string, std::unique_ptr<HttpServer>> servers;
  std::string list;
  for (const auto& [path, each] : hostile) {
    auto& server = servers[path] = std::make_unique<HttpServer>();
    server->answer(path, {each.first});
    list += server->address(path) + "\n";
  }
  const auto result = fetch(
      folder.write("list.txt", list),
      {"--max-size", "1000000", "--max-time", "2", "--retries", "1"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(pages().empty());
  const auto failed = failures();
  EXPECT_EQ(failed.size(), hostile.size());
  for (const auto& [path, each] : hostile) {
    const auto found = failed.find(servers.at(path)->address(path));
    ASSERT_NE(found, failed.end()) << path;
    EXPECT_THAT(found->second, HasSubstr(each.second)) << path;
  }
}

TEST_F(FetchPages, OfAServerInTroubleIsGivenUp) {
  HttpServer server;
  server.answer("/robots.txt", {{.status = 500, .body = ""}});
  std::string list;
  for (int i = 0; i < 20; ++i) {
    list += server.address("/" + std::to_string(i)) + "\n";
  }
  const auto result = fetch(folder.write("list.txt", list), {"--retries", "1"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(failures().size(), 20U);
  EXPECT_EQ(
      failures().at(server.address("/19")),
      "status\trobots.txt: the server answers 500");
  EXPECT_EQ(server.questions().size(), 3U);
}

// Redirects that lead nowhere are answers, and so is a picture.
TEST_F(FetchPages, OfAServerThatAnswersGoOn) {
  HttpServer server;
  server.answer("/robots.txt", {{.status = 204, .body = ""}});
  const HttpAnswer cut{
      .body = std::string(100, 'x'),
      .cut_after = 10,
      .headers = "Content-Type: text/html\r\n"};
  std::string list;
  const auto add = [&](const std::string& path, const HttpAnswer& answer) {
    server.answer(path, {answer});
    list += server.address(path) + "\n";
  };
  for (int i = 0; i < 4; ++i) {
    const std::string path = "/" + std::to_string(i);
    add(path, {.status = 302, .location = "file:///etc/passwd"});
    add(path + "/cut", cut);
  }
  add("/page", page("Page", sentence + sentence));
  const auto result = fetch(folder.write("list.txt", list), {"--retries", "1"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(failures().size(), 8U);
  EXPECT_TRUE(pages().contains(server.address("/page")));
}

TEST_F(FetchPages, PauseBetweenTheRulesAndThePage) {
  HttpServer server;
  server.answer("/1", {page("One", sentence + sentence)});
  server.answer("/robots.txt", {{.body = "User-agent: *\nDisallow: /no\n"}});
  const PageOptions options{
      .output = output,
      .failures = output + ".failed",
      .private_networks = true};
  PageResults results(options);
  PageFetcher fetcher(options, results);
  PageServer state;
  for (const char* const path : {"/no", "/1"}) {
    state = {};
    const PageTask task{server.address(path), server.address(path)};
    const auto first = fetcher.fetch(task, state);
    EXPECT_EQ(server.questions().back().path, "/robots.txt");
    EXPECT_EQ(first.pause, options.delay);
    EXPECT_EQ(first.again.has_value(), task.now == server.address("/1"));
  }
  const auto second =
      fetcher.fetch({server.address("/1"), server.address("/1")}, state);
  EXPECT_EQ(server.questions().back().path, "/1");
  EXPECT_EQ(second.pause, options.delay);
  EXPECT_FALSE(second.again);
}

// A list that comes from the internet must not read what is in here.
TEST_F(FetchPages, NotFromThisMachineUnlessItIsAllowed) {
  HttpServer server;
  server.answer("/1", {page("One", sentence + sentence)});
  Words all = words(folder.write("list.txt", server.address("/1") + "\n"));
  std::erase(all, "--private-networks");
  const auto result = Command(all, environment).finish();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      failures().at(server.address("/1")),
      "no web address\trobots.txt: 127.0.0.1 is an address of a private "
      "network");
  EXPECT_TRUE(server.questions().empty());
}

// A proxy of another scheme is none, and what `no_proxy` lists is not reached
// past the proxy.
TEST_F(FetchPages, FromPrivateNetworksOnlyThroughAProxy) {
  HttpServer server;
  HttpServer proxy;
  const std::string address = server.address("/1");
  server.answer("/1", {page("Private", sentence + sentence)});
  proxy.answer(address, {page("Proxy", sentence + sentence)});
  Words all = words(folder.write("list.txt", address + "\n"));
  std::erase(all, "--private-networks");
  const auto run = [&](const std::string& name) {
    const auto result = Command(
                            all,
                            {{"http_proxy", ""},
                             {"https_proxy", ""},
                             {"HTTPS_PROXY", ""},
                             {"all_proxy", ""},
                             {"ALL_PROXY", ""},
                             {"NO_PROXY", ""},
                             {"no_proxy", "127.0.0.1"},
                             {name, proxy.address("")}})
                            .finish();
    EXPECT_EQ(result.code, 0) << result.err;
  };
  run("https_proxy");
  EXPECT_THAT(failures().at(address), HasSubstr("of a private network"));
  EXPECT_TRUE(proxy.questions().empty());
  all.emplace_back("--overwrite");
  for (const char* const name : {"http_proxy", "ALL_PROXY"}) {
    run(name);
    EXPECT_EQ(pages().at(address).at("title"), "Proxy") << name;
  }
  EXPECT_TRUE(server.questions().empty());
}

bool is_public_address(const char* text) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  if (::inet_pton(AF_INET6, text, &six.sin6_addr) == 1) {
    return is_public(reinterpret_cast<const sockaddr&>(six));
  }
  sockaddr_in four{};
  four.sin_family = AF_INET;
  EXPECT_EQ(::inet_pton(AF_INET, text, &four.sin_addr), 1) << text;
  return is_public(reinterpret_cast<const sockaddr&>(four));
}

TEST(PublicNetwork, IsWhatEverybodyCanReach) {
  for (const char* const text :
       {"1.1.1.1",
        "93.184.216.34",
        "172.32.0.1",
        "100.128.0.1",
        "223.255.0.1",
        "2606:4700::1111",
        "::ffff:1.1.1.1",
        "64:ff9b::101:101"}) {
    EXPECT_TRUE(is_public_address(text)) << text;
  }
  for (const char* const text :
       {"127.0.0.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.31.255.255",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "64:ff9b::a00:1",
        "2002:7f00:1::"}) {
    EXPECT_FALSE(is_public_address(text)) << text;
  }
}

// Without a network, a list of millions must not end as a list of failures.
TEST_F(FetchPages, StopWhenNoServerCanBeReached) {
  std::string list;
  for (int i = 0; i < 60; ++i) {
    list += "http://127.0.0." + std::to_string(i + 1) + ":1/\n";
  }
  const auto file = folder.write("list.txt", list);
  const auto result = fetch(file, {"--retries", "1"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(
      result.err,
      AllOf(
          HasSubstr("servers were asked in a row, and none could be reached"),
          HasSubstr("run the same command again to continue")));
  EXPECT_FALSE(std::filesystem::exists(output));
  EXPECT_TRUE(failures().empty());
}

TEST_F(FetchPages, ReadStdinAndWriteStdout) {
  HttpServer server;
  server.answer("/1", {page("One", sentence + sentence)});
  const auto result =
      Command(
          {"bash",
           "-c",
           "echo '" + server.address("/1") +
               "' | " CAIRN_BINARY_DIR
               "/bin/cairn data pages - --output - --private-networks"},
          environment)
          .finish();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out).at("url"), server.address("/1"));
  EXPECT_THAT(result.err, ContainsRegex("pages +1, "));
}

TEST_F(FetchPages, RefuseBadUsage) {
  const auto list = folder.write("list.txt", "https://example.org/\n");
  const auto expect = [&](const Words& more, int code, const char* text) {
    const auto result = fetch(list, more);
    EXPECT_EQ(result.code, code) << text;
    EXPECT_THAT(result.err, HasSubstr(text));
  };
  expect({"--user-agent", "a\nb"}, 2, "is no name to be sent to servers");
  expect({"--max-size", "2GiB"}, 2, "a page of more than 1 GiB");
  expect({"--jobs", "0"}, 2, "--jobs");
  expect({"--failures", list}, 2, "the output is also an input");
}

} // namespace
} // namespace cairn::corpus::fetch_pages_test
