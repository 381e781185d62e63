#include "corpus/internal/download.h"

#include <cairn/base/error.h>

#include "corpus/download/message_digest.h"
#include "corpus/internal/web_address.h"
#include "support/command.h"
#include "support/http_server.h"
#include "support/temporary_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace cairn::corpus::download_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::HttpAnswer;
using testing::HttpServer;
using ::testing::Not;
using testing::read_text;
using testing::TemporaryFolder;

/// Bytes that repeat nowhere near each other, so that a wrong splice shows.
std::string some_bytes(std::size_t size, std::uint32_t seed = 1) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    seed = seed * 1664525U + 1013904223U;
    byte = static_cast<char>(seed >> 24);
  }
  return bytes;
}

Checksum sha256_of(const std::string& text) {
  MessageDigest digest("sha256");
  digest.update(text);
  return {Checksum::Kind::sha256, digest.hex()};
}

/// A fixture without warnings on the terminal and without long waits.
class Download : public ::testing::Test {
 protected:
  Download() {
    ::setenv("no_proxy", "*", 1); // the servers are on this machine
    options.first_wait = std::chrono::milliseconds(1);
    options.longest_wait = std::chrono::milliseconds(5);
    options.connect_timeout = std::chrono::seconds(5);
  }

  DownloadReport get(const DownloadRequest& request) {
    return download(request, options, Logger({.least = LogLevel::error}));
  }

  DownloadRequest request(const std::string& path) {
    return {.addresses = {server.address(path)}, .path = file};
  }

  std::string failure(const DownloadRequest& wanted) {
    try {
      get(wanted);
    } catch (const DataError& error) {
      return error.what();
    }
    ADD_FAILURE() << "was downloaded";
    return {};
  }

  std::string header(std::size_t question, const std::string& name) const {
    const auto questions = server.questions();
    const auto& headers = questions.at(question).headers;
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }

  bool nothing_left() const {
    return !std::filesystem::exists(file) &&
        !std::filesystem::exists(file.string() + ".part") &&
        !std::filesystem::exists(file.string() + ".part.json");
  }

  TemporaryFolder folder;
  std::filesystem::path file = folder / "sub/file.bin";
  HttpServer server;
  DownloadOptions options;
  const std::string bytes = some_bytes(300'000);
};

TEST(MessageDigest, IsTheStandardsExample) {
  EXPECT_EQ(
      sha256_of("abc").hex,
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  MessageDigest sha1("sha1");
  sha1.update(std::string_view("abc"));
  EXPECT_EQ(sha1.hex(), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

TEST_F(Download, BringsAFileAndTellsItsChecksum) {
  server.answer("/file.bin", {{.body = bytes}});
  const auto report = get(request("/file.bin"));
  EXPECT_EQ(read_text(file), bytes);
  EXPECT_EQ(report.size, bytes.size());
  EXPECT_EQ(report.sha256, sha256_of(bytes).hex);
  EXPECT_EQ(report.address, server.address("/file.bin"));
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".part"));
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".part.json"));
}

TEST_F(Download, BringsAnEmptyFile) {
  server.answer("/file.bin", {{.body = ""}});
  EXPECT_EQ(get(request("/file.bin")).size, 0U);
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(Download, GoesOnAfterACut) {
  server.answer(
      "/file.bin",
      {{.body = bytes, .cut_after = 100'000}, {.body = bytes}});
  const auto report = get(request("/file.bin"));
  EXPECT_EQ(read_text(file), bytes);
  EXPECT_EQ(report.resumed_from, 100'000U);
  EXPECT_EQ(report.sha256, sha256_of(bytes).hex);
  EXPECT_EQ(header(1, "range"), "bytes=100000-");
  EXPECT_EQ(header(1, "if-range"), "\"one\"");
}

TEST_F(Download, MayBreakMoreOftenThanItIsTriedInARow) {
  options.attempts = 2;
  server.answer("/file.bin", {{.body = bytes, .cut_after = 20'000}});
  EXPECT_EQ(get(request("/file.bin")).size, bytes.size());
  EXPECT_EQ(read_text(file), bytes);
  EXPECT_EQ(server.questions().size(), 15U);
}

TEST_F(Download, IsGivenUpWhenTheServerAlwaysBreaksAtTheSamePlace) {
  options.attempts = 3;
  server.answer(
      "/file.bin",
      {{.body = bytes, .etag = "", .ranges = false, .cut_after = 20'000}});
  EXPECT_THAT(failure(request("/file.bin")), HasSubstr("(3 tries)"));
}

TEST_F(Download, GoesOnInTheNextRun) {
  options.attempts = 1;
  server.answer(
      "/file.bin",
      {{.body = bytes, .cut_after = 70'000}, {.body = bytes}});
  EXPECT_THAT(
      failure(request("/file.bin")),
      AllOf(HasSubstr("70000 bytes are kept"), HasSubstr(file.string())));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(get(request("/file.bin")).resumed_from, 70'000U);
  EXPECT_EQ(read_text(file), bytes);
}

TEST_F(Download, StartsOverWhenTheFileChanged) {
  options.attempts = 1;
  const auto newer = some_bytes(200'000, 2);
  server.answer(
      "/file.bin",
      {{.body = bytes, .cut_after = 70'000},
       {.body = newer, .etag = "\"two\""}});
  failure(request("/file.bin"));
  EXPECT_EQ(get(request("/file.bin")).resumed_from, 0U);
  EXPECT_EQ(header(1, "range"), "bytes=70000-");
  EXPECT_EQ(read_text(file), newer);
}

TEST_F(Download, StartsOverWhenTheServerKnowsNoRanges) {
  server.answer(
      "/file.bin",
      {{.body = bytes, .ranges = false, .cut_after = 70'000},
       {.body = bytes, .ranges = false}});
  EXPECT_EQ(get(request("/file.bin")).resumed_from, 0U);
  EXPECT_EQ(read_text(file), bytes);
}

TEST_F(Download, StartsOverWithoutSomethingToRecogniseTheFileBy) {
  server.answer(
      "/file.bin",
      {{.body = bytes, .etag = "W/\"weak\"", .cut_after = 70'000},
       {.body = bytes}});
  get(request("/file.bin"));
  EXPECT_EQ(header(1, "range"), "");
  EXPECT_EQ(read_text(file), bytes);
}

TEST_F(Download, RecognisesTheFileByItsDate) {
  const std::string date = "Wed, 21 Oct 2015 07:28:00 GMT";
  server.answer(
      "/file.bin",
      {{.body = bytes, .etag = "", .last_modified = date, .cut_after = 9},
       {.body = bytes, .etag = "", .last_modified = date}});
  EXPECT_EQ(get(request("/file.bin")).resumed_from, 9U);
  EXPECT_EQ(header(1, "if-range"), date);
}

TEST_F(Download, GoesOnFromAMirrorWhereAChecksumWillTell) {
  options.attempts = 1;
  server.answer("/a/file.bin", {{.body = bytes, .cut_after = 70'000}});
  server.answer("/b/file.bin", {{.body = bytes, .etag = "\"other\""}});
  auto wanted = request("/a/file.bin");
  wanted.addresses.push_back(server.address("/b/file.bin"));
  wanted.expected = sha256_of(bytes);
  const auto report = get(wanted);
  EXPECT_EQ(report.address, server.address("/b/file.bin"));
  EXPECT_EQ(report.resumed_from, 70'000U);
  EXPECT_EQ(read_text(file), bytes);
}

TEST_F(Download, StartsOverWhenTheHalvesDoNotFit) {
  options.attempts = 2;
  server.answer(
      "/a/file.bin",
      {{.body = bytes, .cut_after = 70'000}, {.status = 404}});
  const auto other = some_bytes(bytes.size(), 3);
  server.answer("/b/file.bin", {{.body = other, .etag = "\"other\""}});
  auto wanted = request("/a/file.bin");
  wanted.addresses.push_back(server.address("/b/file.bin"));
  wanted.expected = sha256_of(other);
  EXPECT_EQ(get(wanted).resumed_from, 0U);
  EXPECT_EQ(read_text(file), other);
}

TEST_F(Download, AWholePartIsOnlyChecked) {
  server.answer("/file.bin", {{.body = bytes}});
  std::filesystem::create_directories(file.parent_path());
  folder.write("sub/file.bin.part", bytes);
  folder.write(
      "sub/file.bin.part.json",
      "{\"address\": \"" + server.address("/file.bin") +
          "\", \"validator\": \"\\\"one\\\"\", \"total\": 300000}");
  EXPECT_EQ(get(request("/file.bin")).size, bytes.size());
  EXPECT_EQ(read_text(file), bytes);
}

TEST_F(Download, APartOfUnknownOriginIsNotUsed) {
  server.answer("/file.bin", {{.body = bytes}});
  std::filesystem::create_directories(file.parent_path());
  folder.write("sub/file.bin.part", "something else");
  for (const char* origin : {"{", "[]", "{\"address\": 3}"}) {
    folder.write("sub/file.bin.part.json", origin);
    auto wanted = request("/file.bin");
    wanted.replace = true;
    EXPECT_EQ(get(wanted).resumed_from, 0U);
    EXPECT_EQ(read_text(file), bytes);
  }
}

TEST_F(Download, RefusesAWrongChecksumAndKeepsNothing) {
  server.answer("/file.bin", {{.body = bytes}});
  auto wanted = request("/file.bin");
  wanted.expected = sha256_of("something else");
  EXPECT_THAT(
      failure(wanted),
      AllOf(
          HasSubstr("wrong checksum"),
          HasSubstr(sha256_of(bytes).hex),
          HasSubstr(wanted.expected->hex)));
  EXPECT_TRUE(nothing_left());
}

TEST_F(Download, RefusesAnotherSizeBeforeTheBytesCome) {
  server.answer("/file.bin", {{.body = bytes}});
  auto wanted = request("/file.bin");
  wanted.size = 5;
  EXPECT_THAT(
      failure(wanted),
      HasSubstr("sends 300000 bytes where the file has 5"));
  EXPECT_TRUE(nothing_left());
}

TEST_F(Download, StopsAtOnceWhenMoreComesThanTheFileHas) {
  server.answer("/file.bin", {{.body = bytes, .says_length = false}});
  auto wanted = request("/file.bin");
  wanted.size = 5;
  wanted.expected = sha256_of(bytes.substr(0, 5));
  EXPECT_THAT(failure(wanted), HasSubstr("sends more than the 5 bytes"));
  EXPECT_EQ(server.questions().size(), 1U);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Download, StartsOverWhenARangeBringsTooMuch) {
  server.answer(
      "/file.bin",
      {{.body = bytes, .cut_after = 70'000},
       {.body = bytes + "more", .claim_total = bytes.size()},
       {.body = bytes}});
  EXPECT_EQ(get(request("/file.bin")).resumed_from, 0U);
  EXPECT_EQ(header(1, "range"), "bytes=70000-");
  EXPECT_EQ(header(2, "range"), "");
  EXPECT_EQ(read_text(file), bytes);
}

TEST_F(Download, IsNotCompleteBeforeTheKnownSize) {
  options.attempts = 2;
  server.answer("/file.bin", {{.body = bytes, .says_length = false}});
  auto wanted = request("/file.bin");
  wanted.size = bytes.size() + 1;
  EXPECT_THAT(failure(wanted), HasSubstr("tries"));
  EXPECT_FALSE(std::filesystem::exists(file));
  wanted.size = bytes.size();
  EXPECT_EQ(get(wanted).size, bytes.size());
}

TEST_F(Download, AWrongLengthIsACut) {
  options.attempts = 2;
  server.answer("/file.bin", {{.body = bytes, .claim = bytes.size() + 1}});
  EXPECT_THAT(failure(request("/file.bin")), HasSubstr("tries"));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(Download, FollowsRedirects) {
  server.answer("/a", {{.status = 302, .location = "/b"}});
  server.answer(
      "/b",
      {{.status = 301, .location = server.address("/file.bin")}});
  server.answer("/file.bin", {{.body = bytes}});
  get(request("/a"));
  EXPECT_EQ(read_text(file), bytes);
}

TEST_F(Download, ARedirectLoopEnds) {
  server.answer("/a", {{.status = 302, .location = "/b"}});
  server.answer("/b", {{.status = 302, .location = "/a"}});
  EXPECT_THAT(
      failure(request("/a")),
      HasSubstr("redirected more than 10 times"));
  EXPECT_EQ(server.questions().size(), 11U);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Download, ARedirectLeadsToNoOtherScheme) {
  const auto secret = folder.write("secret", "do not copy");
  for (const auto& target :
       {"file://" + secret, std::string("ftp://127.0.0.1/x")}) {
    server.answer("/a", {{.status = 302, .location = target}});
    EXPECT_THAT(failure(request("/a")), HasSubstr("not followed"));
    EXPECT_TRUE(nothing_left());
  }
}

TEST(Redirect, LeadsFromHttpsToHttpsOnly) {
  EXPECT_TRUE(may_redirect("https://a.org/x", "https://b.org/x"));
  EXPECT_TRUE(may_redirect("http://a.org/x", "https://a.org/x"));
  EXPECT_TRUE(may_redirect("http://a.org/x", "http://b.org/x"));
  EXPECT_FALSE(may_redirect("https://a.org/x", "http://a.org/x"));
  EXPECT_FALSE(may_redirect("https://a.org/x", "HTTP://a.org/x"));
  EXPECT_FALSE(may_redirect("http://a.org/x", "ftp://a.org/x"));
}

TEST_F(Download, WaitsForAServerInTrouble) {
  server.answer(
      "/file.bin",
      {{.status = 500}, {.status = 503}, {.body = bytes}});
  get(request("/file.bin"));
  EXPECT_EQ(read_text(file), bytes);
  EXPECT_EQ(server.questions().size(), 3U);
}

TEST_F(Download, DoesNotAskTwiceForWhatIsNotThere) {
  EXPECT_THAT(
      failure(request("/file.bin")),
      HasSubstr("the server answers 404"));
  EXPECT_EQ(server.questions().size(), 1U);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Download, AStallIsCutOff) {
  options.stall_timeout = std::chrono::seconds(1);
  server.answer(
      "/file.bin",
      {{.body = bytes, .pause = std::chrono::seconds(20)}, {.body = bytes}});
  // The server has one thread, so the second request waits for its first to
  // notice that nobody listens: a second server answers instead.
  HttpServer second;
  second.answer("/file.bin", {{.body = bytes}});
  options.attempts = 1;
  auto wanted = request("/file.bin");
  wanted.addresses.push_back(second.address("/file.bin"));
  EXPECT_EQ(get(wanted).address, second.address("/file.bin"));
  EXPECT_EQ(read_text(file), bytes);
}

TEST_F(Download, TellsWhatWasTriedWithoutANetwork) {
  const auto nobody =
      "http://127.0.0.1:" + std::to_string(testing::unused_port()) + "/x";
  const std::string no_such_host = "http://no-such-host.invalid/x";
  const auto text =
      failure({.addresses = {nobody, no_such_host}, .path = file});
  EXPECT_THAT(
      text,
      AllOf(
          HasSubstr("cannot download file.bin, no server can be reached"),
          HasSubstr(nobody),
          HasSubstr(no_such_host),
          HasSubstr("put it here as " + file.string())));
  EXPECT_TRUE(nothing_left());
}

TEST_F(Download, TakesHttpAndHttpsOnly) {
  const auto secret = folder.write("secret", "do not copy");
  for (const auto& address :
       {"file://" + secret,
        std::string("ftp://example.org/x"),
        std::string("gopher://example.org/x"),
        std::string("/etc/passwd"),
        std::string("http://"),
        std::string("nonsense")}) {
    EXPECT_THROW(get({.addresses = {address}, .path = file}), ConfigError)
        << address;
    EXPECT_TRUE(nothing_left());
  }
}

TEST_F(Download, SaysNoPasswords) {
  const auto text = failure(
      {.addresses = {"http://me:hushhush@127.0.0.1:1/x"}, .path = file});
  EXPECT_THAT(text, Not(HasSubstr("hushhush")));
  EXPECT_THAT(text, HasSubstr("http://127.0.0.1:1/x"));
}

TEST_F(Download, WhatIsThereIsCheckedAndLeftAlone) {
  std::filesystem::create_directories(file.parent_path());
  folder.write("sub/file.bin", "brought by hand");
  auto wanted = request("/file.bin");
  EXPECT_EQ(get(wanted).address, "");
  wanted.expected = sha256_of("brought by hand");
  EXPECT_EQ(get(wanted).address, "");
  wanted.size = 3;
  EXPECT_THAT(failure(wanted), HasSubstr("15 bytes, and should have 3"));
  wanted.size.reset();
  wanted.expected = sha256_of("something else");
  EXPECT_THAT(failure(wanted), HasSubstr("there already has the wrong"));
  EXPECT_EQ(read_text(file), "brought by hand");
  EXPECT_TRUE(server.questions().empty());
}

TEST_F(Download, ReplacesWhatIsThereWhenAsked) {
  std::filesystem::create_directories(file.parent_path());
  folder.write("sub/file.bin", "old");
  server.answer("/file.bin", {{.body = bytes}});
  auto wanted = request("/file.bin");
  wanted.replace = true;
  get(wanted);
  EXPECT_EQ(read_text(file), bytes);
}

TEST_F(Download, OneProcessAtATime) {
  std::filesystem::create_directories(file.parent_path());
  const auto part = folder.write("sub/file.bin.part", "");
  const UniqueFd other(::open(part.c_str(), O_RDWR));
  ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
  EXPECT_THAT(failure(request("/file.bin")), HasSubstr("another process"));
}

TEST_F(Download, AFullDiskIsSaidBeforeTheBytesCome) {
  server.answer("/file.bin", {{.body = bytes, .claim = std::size_t{1} << 60}});
  EXPECT_THAT(failure(request("/file.bin")), HasSubstr("not enough room"));
  EXPECT_TRUE(nothing_left());
}

TEST_F(Download, TellsTheWatcherWhatComes) {
  struct Watcher : DownloadWatcher {
    void begin(std::uint64_t from, std::uint64_t total) override {
      events += fmt::format("from {} of {}; ", from, total);
    }
    void advance(std::uint64_t count) override { sum += count; }
    void interrupted() override { events += "interrupted; "; }
    void complete() override { events += "complete"; }
    std::string events;
    std::uint64_t sum = 0;
  } watcher;
  options.watcher = &watcher;
  server.answer(
      "/file.bin",
      {{.body = bytes, .cut_after = 100'000}, {.body = bytes}});
  get(request("/file.bin"));
  EXPECT_EQ(
      watcher.events,
      "from 0 of 300000; interrupted; from 100000 of 300000; complete");
  EXPECT_EQ(watcher.sum, bytes.size());
}

TEST_F(Download, ATextHasALimit) {
  server.answer("/sums", {{.status = 503}, {.body = "12345"}});
  const Logger log({.least = LogLevel::error});
  EXPECT_EQ(download_text({server.address("/sums")}, 5, options, log), "12345");
  EXPECT_THROW(
      download_text({server.address("/sums")}, 4, options, log),
      DataError);
}

TEST(Checksum, TakesSixtyFourDigits) {
  EXPECT_EQ(sha256_checksum(std::string(64, 'A')).hex, std::string(64, 'a'));
  EXPECT_THROW(sha256_checksum(std::string(63, 'a')), ConfigError);
  EXPECT_THROW(sha256_checksum(std::string(64, 'g')), ConfigError);
}

TEST(FileName, IsTheEndOfTheAddress) {
  EXPECT_EQ(file_name_of("https://a.org/x/y.zip?z=1#t"), "y.zip");
  EXPECT_EQ(file_name_of("https://a.org/a%20b"), "a b");
  for (const char* address :
       {"https://a.org",
        "https://a.org/x/",
        "https://a.org/..",
        "https://a.org/%2e%2e",
        "https://a.org/.bashrc",
        "https://a.org/a%0ab"}) {
    EXPECT_THROW(file_name_of(address), ConfigError) << address;
  }
  EXPECT_EQ(file_name_of("https://a.org/%2fetc%2fpasswd"), "passwd");
}

} // namespace
} // namespace cairn::corpus::download_test
