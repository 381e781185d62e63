#include "corpus/download/message_digest.h"
#include "corpus/handmade_archive.h"
#include "support/command.h"
#include "support/http_server.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::corpus::download_command_test {
namespace {

using ::testing::AllOf;
using testing::Command;
using ::testing::HasSubstr;
using testing::HttpServer;
using testing::read_text;
using testing::Result;
using testing::TemporaryFolder;
using testing::Words;

Words words(const Words& arguments) {
  Words all{CAIRN_BINARY_DIR "/bin/cairn", "data", "download"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

const std::vector<std::pair<std::string, std::string>> without_proxy{
    {"no_proxy", "*"}}; // the servers are on this machine

Result run(const Words& words) {
  return Command(words, without_proxy).finish();
}

std::string sum(const char* kind, const std::string& text) {
  MessageDigest digest(kind);
  digest.update(text);
  return digest.hex();
}

TEST(DownloadCommand, ListsWhatItKnows) {
  const auto result = run(words({"--list"}));
  EXPECT_EQ(result.code, 0);
  for (const char* name :
       {"gpt2-vocab.json",
        "gpt2-merges.txt",
        "bert-large-uncased-vocab.txt",
        "bert-large-cased-vocab.txt",
        "enwiki-latest-pages-articles.xml.bz2",
        "wikitext-2-v1.zip",
        "cifar-10-binary.tar.gz",
        "checkpoints/gpt2_345m/megatron_lm_345m_v0.0.zip",
        "checkpoints/bert_345m/megatron_bert_345m_v0.1_uncased.zip"}) {
    EXPECT_THAT(result.out, HasSubstr(name));
  }
}

TEST(DownloadCommand, RefusesBadUsage) {
  const auto expect = [](const Words& arguments, const char* text) {
    const auto result = run(words(arguments));
    EXPECT_EQ(result.code, 2) << text;
    EXPECT_THAT(result.err, HasSubstr(text));
  };
  expect({}, "nothing is named");
  expect({"gpt-2"}, "did you mean \"gpt2\"?");
  expect({"file:///etc/passwd"}, "no address to download from");
  expect({"ftp://example.org/x"}, "no address to download from");
  expect({"https://example.org/"}, "does not end in a file's name");
  expect({"wikipedia", "--language", "../x"}, "no code of one of Wikipedia's");
  expect({"tiny-shakespeare", "--sha256", "12"}, "no SHA-256");
  expect({"gpt2", "--sha256", std::string(64, '0')}, "of one file, here are 2");
  expect({"gpt2", "--language", "de"}, "wikipedia is not named");
  expect({"gpt2", "--unchecked"}, "--unchecked is for files whose sums");
  expect({"gpt2", "gpt2"}, "would be the same file");
  expect(
      {"https://me:hush@a.org/x.txt", "https://b.org/x.txt"},
      "x.txt: https://a.org/x.txt and https://b.org/x.txt would be the same");
  expect(
      {"tiny-shakespeare", "https://b.org/input.txt"},
      "would be the same file");
}

TEST(DownloadCommand, BringsAnAddressOfOnesOwn) {
  TemporaryFolder folder;
  HttpServer server;
  server.answer("/some%20text.txt", {{.body = "hello"}});
  const Words arguments{
      server.address("/some%20text.txt"),
      "--output",
      folder.path().string()};
  auto result = run(words(arguments));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(read_text(folder / "some text.txt"), "hello");
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("5 bytes"), HasSubstr(sum("sha256", "hello"))));
  result = run(words(arguments));
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("there already"));
}

TEST(DownloadCommand, AWrongChecksumLeavesNothing) {
  TemporaryFolder folder;
  HttpServer server;
  server.answer("/x.txt", {{.body = "hello"}});
  const auto result = run(words(
      {server.address("/x.txt"),
       "--output",
       folder.path().string(),
       "--sha256",
       std::string(64, '0')}));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("wrong checksum"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DownloadCommand, GoesOnAfterKillNine) {
  TemporaryFolder folder;
  HttpServer server;
  std::string body;
  for (std::int64_t i = 0; body.size() < (4U << 20); ++i) {
    body += std::to_string(i * 7919) + ' ';
  }
  const auto pause = std::chrono::milliseconds(20);
  server.answer("/big.bin", {{.body = body, .pause = pause}, {.body = body}});
  const auto file = folder / "big.bin";
  const auto part = folder / "big.bin.part";
  const auto arguments = words(
      {server.address("/big.bin"),
       "--output",
       folder.path().string(),
       "--sha256",
       sum("sha256", body)});
  {
    Command command(arguments, without_proxy);
    std::error_code missing;
    for (int i = 0; i < 2000; ++i) {
      const auto size = std::filesystem::file_size(part, missing);
      if (!missing && size > (1U << 20)) {
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    command.send(SIGKILL);
    EXPECT_EQ(command.finish().code, 128 + SIGKILL);
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  const auto arrived = std::filesystem::file_size(part);
  EXPECT_GT(arrived, 1U << 20);
  EXPECT_LT(arrived, body.size());

  const auto result = run(arguments);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(read_text(file), body);
  EXPECT_FALSE(std::filesystem::exists(part));
  const auto questions = server.questions();
  ASSERT_EQ(questions.size(), 2U);
  EXPECT_EQ(
      questions[1].headers.at("range"),
      "bytes=" + std::to_string(arrived) + "-");
}

TEST(DownloadCommand, AFolderThatCannotBeMadeIsNamed) {
  TemporaryFolder folder;
  const auto inside = folder.write("file", "") + "/inside";
  const auto result = run(words({"gpt2", "--output", inside}));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr(inside + ": cannot make this folder"));
}

TEST(DownloadCommand, WithoutANetworkSaysWhereToPutTheFile) {
  TemporaryFolder folder;
  const auto result = run(words(
      {"http://127.0.0.1:" + std::to_string(testing::unused_port()) + "/v.txt",
       "--output",
       folder.path().string()}));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(
      result.err,
      AllOf(
          HasSubstr("no server can be reached"),
          HasSubstr("put it here as " + (folder / "v.txt").string())));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DownloadCommand, ChecksAWikipediaDumpAgainstThePublishedSum) {
  TemporaryFolder folder;
  HttpServer server;
  const std::string dump = "BZh9 not really";
  const std::string name = "/zh_min_nanwiki-latest-";
  server.answer(name + "pages-articles.xml.bz2", {{.body = dump}});
  server.answer(
      name + "sha1sums.txt",
      {{.body = sum("sha1", "x") + "  zh_min_nanwiki-20260101-abstract.gz\n" +
            sum("sha1", dump) +
            "  zh_min_nanwiki-20260101-pages-articles.xml.bz2\n"}});
  const Words arguments{
      "wikipedia",
      "--language",
      "zh-min-nan",
      "--mirror",
      server.address(""),
      "--output",
      folder.path().string()};
  auto result = run(words(arguments));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(
          HasSubstr("equal to the published sha1"),
          HasSubstr("cairn data wiki")));
  const auto file = folder / "zh_min_nanwiki-latest-pages-articles.xml.bz2";
  EXPECT_EQ(read_text(file), dump);

  std::filesystem::resize_file(file, 3);
  result = run(words(arguments));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("wrong checksum"));
}

TEST(DownloadCommand, ADumpWithoutAPublishedSumIsNotTakenUnlessAsked) {
  TemporaryFolder folder;
  HttpServer server;
  const std::string dump = "BZh9 not really";
  server.answer("/dewiki-latest-pages-articles.xml.bz2", {{.body = dump}});
  server.answer(
      "/dewiki-latest-sha1sums.txt",
      {{.body = sum("sha1", "x") + "  dewiki-20260101-abstract.gz\n"}});
  Words arguments{
      "wikipedia",
      "--language",
      "de",
      "--mirror",
      server.address(""),
      "--output",
      folder.path().string()};
  auto result = run(words(arguments));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("lists no sum of dewiki"), HasSubstr("--unchecked")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));

  arguments.push_back("--unchecked");
  result = run(words(arguments));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("no checksum to compare"));
  EXPECT_THAT(result.err, HasSubstr("lists no sum of dewiki"));
}

TEST(DownloadCommand, BringsGpt2sVocabularyFromAMirror) {
  TemporaryFolder folder;
  HttpServer server;
  const std::filesystem::path golden = CAIRN_GOLDEN_DIR "/tokenizers/gpt2";
  server.answer(
      "/m/gpt2-vocab.json",
      {{.body = read_text(golden / "vocab.json")}});
  server.answer(
      "/m/gpt2-merges.txt",
      {{.body = read_text(golden / "merges.txt")}});
  const auto result = run(words(
      {"gpt2",
       "--mirror",
       server.address("/m/"),
       "--output",
       folder.path().string()}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("as expected"));
  EXPECT_EQ(
      read_text(folder / "gpt2-merges.txt"),
      read_text(golden / "merges.txt"));
}

TEST(DownloadCommand, UnpacksWhatComesPacked) {
  TemporaryFolder folder;
  HttpServer server;
  const auto archive = testing::zip(
      {{.name = "latest_checkpointed_iteration.txt", .body = "release"},
       {.name = "release/mp_rank_00/model_optim_rng.pt", .body = "weights"}});
  server.answer("/megatron_lm_345m_v0.0.zip", {{.body = archive}});
  const Words arguments{
      "megatron-gpt-345m",
      "--mirror",
      server.address(""),
      "--output",
      folder.path().string()};
  auto result = run(words(arguments));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("--sha256"), HasSubstr(sum("sha256", archive))));
  const auto checkpoint = folder / "checkpoints/gpt2_345m";
  EXPECT_EQ(
      read_text(checkpoint / "release/mp_rank_00/model_optim_rng.pt"),
      "weights");

  auto checked = arguments;
  checked.insert(checked.end(), {"--sha256", std::string(64, '0')});
  result = run(words(checked));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("wrong checksum"));
  checked.back() = sum("sha256", archive);
  EXPECT_EQ(run(words(checked)).code, 0);

  // Once it is unpacked, the archive need not be there.
  std::filesystem::remove(checkpoint / "megatron_lm_345m_v0.0.zip");
  result = run(words(arguments));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("there already, unpacked"));
  result = run(words(checked));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("not the archive that --sha256 is of"));
  EXPECT_EQ(server.questions().size(), 1U);
}

TEST(DownloadCommand, AnArchiveBroughtByHandIsUnpacked) {
  TemporaryFolder folder;
  std::string archive;
  for (const char* name :
       {"batches.meta.txt", "data_batch_1.bin", "test_batch.bin"}) {
    archive +=
        testing::tar_member(std::string("cifar-10-batches-bin/") + name, name);
  }
  archive = testing::gzipped(archive + testing::tar_end);
  folder.write("cifar-10-binary.tar.gz", archive);
  const auto result = run(words(
      {"cifar-10",
       "--sha256",
       sum("sha256", archive),
       "--output",
       folder.path().string()}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      read_text(folder / "cifar-10-batches-bin/test_batch.bin"),
      "test_batch.bin");
}

} // namespace
} // namespace cairn::corpus::download_command_test
