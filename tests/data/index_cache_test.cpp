#include "data/samples/index_cache.h"

#include "data/gpt_golden.h"
#include "data/indexed/npy_file.h"
#include "data/samples/index_description.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace cairn::data::index_cache_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

GptDataOptions options_in(const fs::path& cache) {
  return {
      .data =
          {.blend = Blend{{gpt_golden("a").string()}},
           .split = "949,50,1",
           .samples = {1500, 0, 0},
           .cache_path = cache},
      .sequence_length = 16};
}

// Made with Python 3.12's json.dumps(…, indent=4) and hashlib.md5 from the
// members that Megatron's MegatronDataset collects.
constexpr const char* megatron_text = R"({
    "class": "GPTDataset",
    "dataset_path": "data/\u00e4_text_document",
    "num_samples": 1500,
    "index_split": "train",
    "random_seed": 1234,
    "sequence_length": 16,
    "split": "949,50,1",
    "split_matrix": [
        [
            0,
            0.949
        ],
        [
            0.949,
            0.999
        ],
        [
            0.999,
            1.0
        ]
    ],
    "tokenizer": {
        "class": "megatron.core.tokenizers.text.libraries.null_tokenizer.NullTokenizer",
        "vocab_size": 1000,
        "eod_id": 0,
        "pad_id": 999
    }
})";
constexpr const char* megatron_tokenizer =
    R"({"class":)"
    R"("megatron.core.tokenizers.text.libraries.null_tokenizer.NullTokenizer",)"
    R"("vocab_size": 1000, "eod_id": 0, "pad_id": 999})";

GptIndexRequest request_1500() {
  return {.samples = 1500, .sequence_length = 16};
}

TEST(IndexDescription, IsMegatronsText) {
  const Description description = describe_gpt_index(
      "data/\u00e4_text_document",
      Split::train,
      SplitShares::parse("949,50,1"),
      request_1500(),
      Description::parse(megatron_tokenizer));
  EXPECT_EQ(text_of(description), megatron_text);
  EXPECT_EQ(md5_of(megatron_text), "ea3a730a5faa22b57096a1e41fb0787c");
}

TEST(IndexDescription, TellsOptionsApartThatMegatronsTextDoesNot) {
  const auto text = [](const GptIndexRequest& request) {
    return text_of(describe_gpt_index(
        "a",
        Split::valid,
        SplitShares::parse("1,1,1"),
        request,
        nullptr));
  };
  GptIndexRequest request = request_1500();
  const std::string usual = text(request);
  request.extra_token = false;
  EXPECT_NE(text(request), usual);
  request = request_1500();
  request.drop_last = false;
  EXPECT_NE(text(request), usual);
}

TEST(IndexDescription, OfABlend) {
  const std::vector<Description> parts{{{"class", "A"}}, {{"class", "B"}}};
  EXPECT_EQ(
      text_of(describe_blend(
          parts,
          Split::test,
          std::vector<double>{0.25, 0.75},
          10)),
      R"({
    "class": "BlendedDataset",
    "datasets": [
        {
            "class": "A"
        },
        {
            "class": "B"
        }
    ],
    "split": "test",
    "weights": [
        0.25,
        0.75
    ],
    "size": 10
})");
  EXPECT_THAT(
      text_of(describe_blend(
          parts,
          Split::test,
          std::vector<std::int64_t>{574, 62},
          std::nullopt)),
      HasSubstr("574,\n        62\n    ],\n    \"size\": null"));
}

TEST(IndexDescription, NoTextBreaksTheReader) {
  const int accepted = testing::fuzz(
      {.seeds =
           {megatron_text,
            R"({"class": "BlendedDataset", "datasets": [{"tokenizer": 1}]})"},
       .pieces = {"{", "[", "\"datasets\"", "null", "1e999", "\xff", "\\ud800"},
       .runs = 5000},
      [](const std::string& text) { comparable(text, "file"); });
  EXPECT_GT(accepted, 0);
}

TEST(IndexDescription, DeepNestingIsAnError) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  const auto description = [&](std::size_t depth) {
    return R"({"class": "A", "b": )" + nested(depth) + "}";
  };
  EXPECT_NO_THROW(comparable(description(60), "file"));
  EXPECT_THROW(comparable(description(200'000), "file"), DataError);
  EXPECT_THROW(comparable(description(90), "file"), DataError);
  EXPECT_NO_THROW(parse_tokenizer_description(nested(64)));
  EXPECT_THROW(parse_tokenizer_description(nested(200'000)), ConfigError);
}

TEST(IndexCache, FilesOfAnotherTokenizerServeAsWell) {
  const TemporaryFolder folder;
  GptDataOptions options = options_in(folder.path());
  options.data.tokenizer_description = megatron_tokenizer;
  const auto theirs = build_gpt_datasets(options, quiet());
  EXPECT_EQ(theirs.parts[0].origin, IndexOrigin::built);
  options.data.tokenizer_description = "null";
  const auto ours = build_gpt_datasets(options, quiet());
  EXPECT_EQ(ours.parts[0].origin, IndexOrigin::file);
  EXPECT_EQ(ours.parts[0].file, theirs.parts[0].file);
  options.seed = 5;
  EXPECT_EQ(
      build_gpt_datasets(options, quiet()).parts[0].origin,
      IndexOrigin::built);
}

TEST(IndexCache, NamesAreMegatronsAndNothingElseIsLeft) {
  const TemporaryFolder folder;
  const auto built = build_gpt_datasets(options_in(folder.path()), quiet());
  const std::string stem = built.parts[0].file.filename().string();
  EXPECT_THAT(stem, ::testing::MatchesRegex("[0-9a-f]{32}-GPTDataset-train"));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(
      names,
      ::testing::UnorderedElementsAre(
          stem + "-crc32c.txt",
          stem + "-description.txt",
          stem + "-document_index.npy",
          stem + "-sample_index.npy",
          stem + "-shuffle_index.npy"));
  EXPECT_EQ(
      md5_of(read_file(folder / (stem + "-description.txt"), 10000)),
      stem.substr(0, 32));
}

TEST(IndexCache, BesideTheDataByDefault) {
  const TemporaryFolder folder;
  for (const std::string name : {"a.bin", "a.idx"}) {
    fs::copy_file(gpt_golden(name), folder / name);
  }
  GptDataOptions options = options_in("");
  options.data.cache_path.reset();
  options.data.blend = Blend{{(folder / "a").string()}};
  const auto built = build_gpt_datasets(options, quiet());
  EXPECT_EQ(
      built.parts[0].file.parent_path(),
      folder / "a" / "cache" / "GPTDataset_indices");
}

TEST(IndexCache, BrokenFilesAreBuiltAgain) {
  const TemporaryFolder folder;
  const auto options = options_in(folder.path());
  const auto built = build_gpt_datasets(options, quiet());
  const std::string stem = built.parts[0].file.string();
  const std::uint64_t checksum = built.checksum();
  const auto damage = [&](const std::string& file, auto&& how) {
    const std::string path = stem + file;
    const std::string before = read_file(path, 1 << 20);
    fs::remove(path); // what is mapped must not be written to
    how(path, before);
    const auto again = build_gpt_datasets(options, quiet());
    EXPECT_EQ(again.parts[0].origin, IndexOrigin::built) << file;
    EXPECT_EQ(again.checksum(), checksum) << file;
    EXPECT_EQ(read_file(path, 1 << 20), before) << file;
  };
  const auto write = [](const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  };
  for (const std::string file :
       {"-document_index.npy", "-sample_index.npy", "-shuffle_index.npy"}) {
    damage(file, [](const auto&, const auto&) {});
    damage(file, [&](const auto& path, const auto&) { write(path, ""); });
    damage(file, [&](const auto& path, const auto& text) {
      write(path, text.substr(0, text.size() - 8));
    });
    damage(file, [&](const auto& path, auto text) {
      text[9] = '\x7f';
      write(path, text);
    });
  }
  damage("-sample_index.npy", [&](const auto& path, auto text) {
    text[128 + 12] ^= 1; // the second sample begins elsewhere
    write(path, text);
  });
  damage("-document_index.npy", [&](const auto& path, auto text) {
    text[128 + 3] = '\x7f';
    write(path, text);
  });
  damage("-shuffle_index.npy", [&](const auto& path, auto text) {
    // Two samples change places: the array is still a permutation.
    std::swap_ranges(&text[128], &text[132], &text[132]);
    write(path, text);
  });
  damage("-crc32c.txt", [&](const auto& path, auto text) {
    text[2] = text[2] == '0' ? '1' : '0';
    write(path, text);
  });
}

TEST(IndexCache, MegatronsFilesHaveNoChecksums) {
  const TemporaryFolder folder;
  const auto options = options_in(folder.path());
  const auto built = build_gpt_datasets(options, quiet());
  fs::remove(built.parts[0].file.string() + "-crc32c.txt");
  const auto again = build_gpt_datasets(options, quiet());
  EXPECT_EQ(again.parts[0].origin, IndexOrigin::file);
}

TEST(IndexCache, FilesOfOtherDataOfTheSameNameAreNotUsed) {
  const TemporaryFolder folder;
  const auto copy = [&](const std::string& from) {
    for (const std::string ending : {".bin", ".idx"}) {
      fs::remove(folder / ("data" + ending));
      fs::copy_file(gpt_golden(from + ending), folder / ("data" + ending));
    }
  };
  GptDataOptions options = options_in(folder / "cache");
  options.data.blend = Blend{{(folder / "data").string()}};
  copy("a");
  build_gpt_datasets(options, quiet());
  copy("b");
  EXPECT_EQ(
      build_gpt_datasets(options, quiet()).parts[0].origin,
      IndexOrigin::built);
}

TEST(IndexCache, AFolderThatCannotBeWrittenIsNoError) {
  const TemporaryFolder folder;
  folder.write("file", "not a folder");
  const auto built =
      build_gpt_datasets(options_in(folder / "file" / "cache"), quiet());
  EXPECT_EQ(built.parts[0].origin, IndexOrigin::built_in_memory);
  EXPECT_EQ(
      built.checksum(),
      build_gpt_datasets(options_in(folder / "cache"), quiet()).checksum());
}

IndexCache::Key small_key() {
  return {
      .class_name = "Small",
      .description = R"({"class": "Small"})",
      .arrays = {"one"}};
}

std::string any_fits(const IndexCache::Arrays&) {
  return {};
}

IndexCache::Arrays one_two_three() {
  return {IndexArray::of(std::vector<std::int64_t>{1, 2, 3})};
}

TEST(IndexCache, OneBuildsWhileTheOthersWait) {
  const TemporaryFolder folder;
  std::atomic<int> builds = 0;
  std::atomic<int> files = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        IndexCache cache(folder.path(), quiet());
        const auto result = cache.get(small_key(), any_fits, [&] {
          ++builds;
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          return one_two_three();
        });
        EXPECT_EQ(result.arrays[0][2], 3);
        files += result.origin == IndexOrigin::file ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(builds, 1);
  EXPECT_EQ(files, 7);
}

TEST(IndexCache, ABuilderThatWasKilledBlocksNobody) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    IndexCache cache(folder.path(), quiet());
    cache.get(small_key(), any_fits, [&]() -> IndexCache::Arrays {
      std::ofstream(folder / "started") << "x";
      ::pause();
      return {};
    });
    ::_exit(0);
  }
  while (!fs::exists(folder / "started")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  // The remains of a process that was killed in the middle of writing.
  const std::string stem = md5_of(small_key().description) + "-Small-train";
  folder.write("." + stem + "-one.npy.0123456789abcdef.tmp", "half");
  IndexCache cache(folder.path(), quiet());
  const auto result = cache.get(small_key(), any_fits, one_two_three);
  EXPECT_EQ(result.origin, IndexOrigin::built);
  EXPECT_EQ(
      std::distance(fs::directory_iterator(folder.path()), {}),
      4); // started, description, array, checksum
}

TEST(IndexCache, ASetThatIsReplacedHalfwayIsNoSet) {
  const TemporaryFolder folder;
  IndexCache::Key key = small_key();
  key.arrays = {"one", "two"};
  const auto build = [] {
    return IndexCache::Arrays{one_two_three()[0], one_two_three()[0]};
  };
  IndexCache cache(folder.path(), quiet());
  const std::string stem = cache.get(key, any_fits, build).file.string();
  fs::remove(stem + "-two.npy");
  fs::create_directory(stem + "-two.npy"); // writing the second one fails
  EXPECT_EQ(
      cache.get(key, any_fits, build).origin,
      IndexOrigin::built_in_memory);
  EXPECT_FALSE(fs::exists(stem + "-description.txt"));
}

TEST(IndexCache, ASetThatIsReplacedWhileItIsReadIsReadAgain) {
  const TemporaryFolder folder;
  IndexCache cache(folder.path(), quiet());
  const auto built = cache.get(small_key(), any_fits, one_two_three);
  int reads = 0;
  const auto replaced_once = [&](const IndexCache::Arrays&) -> std::string {
    if (++reads == 1) {
      folder.write("new", small_key().description);
      fs::rename(folder / "new", built.file.string() + "-description.txt");
    }
    return {};
  };
  EXPECT_EQ(
      cache.get(small_key(), replaced_once, one_two_three).origin,
      IndexOrigin::file);
  EXPECT_EQ(reads, 2);
}

TEST(IndexCache, WhatBuildingThrowsGetsOutAndFreesTheLock) {
  const TemporaryFolder folder;
  IndexCache cache(folder.path(), quiet());
  EXPECT_THROW(
      cache.get(
          small_key(),
          any_fits,
          []() -> IndexCache::Arrays { throw DataError({.what = "no"}); }),
      DataError);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_EQ(
      cache.get(small_key(), any_fits, one_two_three).origin,
      IndexOrigin::built);
}

} // namespace
} // namespace cairn::data::index_cache_test
