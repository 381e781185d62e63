#include "checkpoints/internal/checkpoint_folder.h"
#include "checkpoints/internal/damaged_checkpoint.h"
#include "checkpoints/internal/native_source.h"
#include "checkpoints/internal/retention.h"
#include "checkpoints/native/box_runs.h"
#include "checkpoints/native/stored_file.h"
#include "checkpoints/save_slices.h"
#include "support/error_text.h"
#include "support/faulty_files.h"
#include "support/fuzz.h"
#include "support/names_in.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/safetensors.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

namespace cairn::checkpoints::native_test {
namespace {

namespace fs = std::filesystem;
using cairn::testing::FaultOutcome;
using cairn::testing::names_in;
using cairn::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Elements of a box, in its order.
at::Tensor boxed(at::Tensor tensor, const Box& box) {
  for (std::size_t d = 0; d < box.begin.size(); ++d) {
    tensor =
        tensor.narrow(static_cast<std::int64_t>(d), box.begin[d], box.size[d]);
  }
  return tensor.contiguous().view({-1});
}

TEST(BoxRuns, KnowWhereTheElementsLie) {
  const at::Tensor tensor = at::arange(2 * 3 * 4 * 5).view({2, 3, 4, 5});
  for (const Box& box :
       {Box{},
        Box{{0, 0, 0, 0}, {2, 3, 4, 5}},
        Box{{1, 0, 0, 0}, {1, 3, 4, 5}},
        Box{{0, 1, 0, 0}, {2, 2, 4, 5}},
        Box{{0, 0, 1, 0}, {2, 3, 2, 5}},
        Box{{1, 1, 1, 2}, {1, 2, 3, 2}}}) {
    const at::Tensor wanted = boxed(tensor, box);
    const BoxRuns runs(tensor.sizes().vec(), box);
    ASSERT_EQ(runs.elements(), wanted.numel());
    std::vector<std::int64_t> found(tensor.numel(), -1);
    for (std::int64_t i = 0; i < runs.elements(); ++i) {
      EXPECT_EQ(runs.in_tensor(i), wanted[i].item<std::int64_t>());
      found[runs.in_tensor(i)] = i;
    }
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      EXPECT_EQ(runs.in_box(i), found[i]);
    }
  }
}

/// Any part comes back, however it was cut: by rows, by columns, flat.
TEST(NativeCheckpoint, GivesAnyPartOfWhatAnyoneSaved) {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(
        random() % static_cast<std::uint32_t>(end));
  };
  for (int round = 0; round < 40; ++round) {
    const std::vector<std::int64_t> shape{
        1 + below(6),
        1 + below(6),
        1 + below(6)};
    const at::Tensor tensor = at::rand(shape);
    // Boxes along one dimension, each cut flat.
    const auto cut = static_cast<std::size_t>(below(3));
    std::vector<Writer> writers;
    for (std::int64_t at = 0; at < shape[cut];) {
      Box box{{0, 0, 0}, shape};
      box.begin[cut] = at;
      box.size[cut] = 1 + below(shape[cut] - at);
      at += box.size[cut];
      const at::Tensor values = boxed(tensor, box);
      const std::int64_t middle = below(values.numel() + 1);
      for (const auto& [begin, end] :
           {std::pair(std::int64_t{0}, middle),
            std::pair(middle, values.numel())}) {
        writers.push_back(
            {{{.name = "x",
               .shape = shape,
               .box = box,
               .begin = begin,
               .values = values.slice(0, begin, end)}}});
      }
    }
    std::shuffle(writers.begin(), writers.end(), random);
    save(folder.path(), "a", writers);
    const NativeSource source(folder / "a");
    for (int i = 0; i < 10; ++i) {
      Box box{{}, {}};
      for (const std::int64_t size : shape) {
        box.begin.push_back(below(size));
        box.size.push_back(1 + below(size - box.begin.back()));
      }
      const at::Tensor wanted = boxed(tensor, box);
      const std::int64_t begin = below(wanted.numel());
      at::Tensor got = at::empty({1 + below(wanted.numel() - begin)});
      source.read("x", box, begin, got);
      EXPECT_TRUE(at::equal(got, wanted.slice(0, begin, begin + got.numel())));
      at::Tensor rounded = at::empty({wanted.numel()}, at::kBFloat16);
      source.read("x", box, 0, rounded);
      EXPECT_TRUE(at::equal(rounded, wanted.to(at::kBFloat16)));
    }
  }
}

TEST(NativeCheckpoint, IsMadeOfSafetensorsFiles) {
  const TemporaryFolder folder;
  const at::Tensor matrix = at::rand({3, 4});
  const at::Tensor bytes = at::arange(5, at::kByte);
  save(
      folder.path(),
      "a",
      {{{whole("weight/matrix", matrix), whole("rng", bytes)}},
       {{{.name = "long",
          .shape = {6},
          .begin = 2,
          .values = at::ones({4})}}}});
  const SafetensorsFile first(folder / "a/rank-0.safetensors");
  EXPECT_TRUE(at::equal(first.tensor("weight/matrix"), matrix));
  EXPECT_TRUE(at::equal(first.tensor("rng"), bytes));
  const SafetensorsFile second(folder / "a/rank-1.safetensors");
  EXPECT_TRUE(at::equal(second.tensor("long[2:6]"), at::ones({4})));
}

TEST(NativeCheckpoint, ReadsOnlyWhatIsAskedFor) {
  const TemporaryFolder folder;
  const at::Tensor large = at::rand({16 << 18}); // 16 blocks
  save(folder.path(), "a", {{{whole("x", large)}}});
  const NativeSource source(folder / "a");
  at::Tensor part = at::empty({10});
  source.read("x", (5 << 18) - 5, part);
  EXPECT_TRUE(at::equal(part, large.slice(0, (5 << 18) - 5, (5 << 18) + 5)));
  EXPECT_EQ(source.bytes_checked(), 2 * checksum_block);
  source.read("x", 5 << 18, part);
  EXPECT_EQ(source.bytes_checked(), 2 * checksum_block);
}

void alter(const fs::path& file, std::streamoff at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(at);
  const char byte = static_cast<char>(stream.get());
  stream.seekp(at);
  stream.put(static_cast<char>(byte ^ 1));
}

/// Drops the file from the cache, so that it is read from the disk (if any).
void drop_from_cache(const fs::path& path) {
  const UniqueFd file = open_file(path, O_RDONLY);
  ::fsync(file.get());
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

TEST(NativeCheckpoint, IsReadPastThePageCache) {
  const TemporaryFolder folder;
  // Slices are large, small and empty, and none begins at a disk's block.
  std::vector<at::Tensor> values{at::rand({3}), at::rand({(11 << 18) + 5})};
  for (int i = 0; i < 40; ++i) {
    values.push_back(at::rand({i * i}));
  }
  values.push_back(at::rand({(3 << 18) + 1}));
  std::vector<TensorSlice> slices;
  for (std::size_t i = 0; i < values.size(); ++i) {
    slices.push_back(whole("x" + std::to_string(i), values[i]));
  }
  save(folder.path(), "a", {{slices}});
  const fs::path file = folder / "a/rank-0.safetensors";
  const auto read = [&](int readers) {
    drop_from_cache(file);
    const NativeSource source(folder / "a", {.readers = readers});
    std::vector<SliceToRead> wanted;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t skip = std::min<std::int64_t>(i, values[i].numel());
      wanted.push_back(
          {.name = "x" + std::to_string(i),
           .begin = skip,
           .into = at::empty({values[i].numel() - skip})});
    }
    source.read(wanted);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(
          at::equal(wanted[i].into, values[i].slice(0, wanted[i].begin)))
          << i;
    }
  };
  for (const int readers : {0, 1, 2}) { // two would share it
    read(readers);
  }
  alter(file, static_cast<std::streamoff>(fs::file_size(file)) / 2);
  for (const int readers : {0, 1}) {
    EXPECT_THAT(
        error_text<DamagedCheckpoint>([&] { read(readers); }),
        ::testing::AllOf(
            HasSubstr("rank-0.safetensors: the file is damaged"),
            HasSubstr("x1, bytes")));
  }
}

TEST(StoredFile, GivesTheSameFromMemoryAndDisk) {
  const TemporaryFolder folder;
  const fs::path path = folder / "file";
  std::string content(20000, ' ');
  std::ranges::generate(content, std::mt19937(1));
  std::ofstream(path, std::ios::binary) << content;
  drop_from_cache(path);
  const StoredFile file(path);
  ASSERT_EQ(file.size(), content.size());
  io::AlignedBuffer room(StoredFile::room_for(content.size()));
  for (const std::size_t at : {0, 1, 4095, 4096, 12288, 19999}) {
    for (const std::size_t size : {1, 4096, 8191, 20000}) {
      if (at + size <= content.size()) {
        const auto read = file.read(at, size, room.bytes());
        const auto wanted = std::as_bytes(std::span(content)).subspan(at, size);
        EXPECT_TRUE(std::ranges::equal(read, wanted)) << at << ' ' << size;
        EXPECT_TRUE(std::ranges::equal(file.mapped(at, size), wanted));
      }
    }
  }
  EXPECT_TRUE(file.in_cache(5000));
  const StoredFile cut(path);
  fs::resize_file(path, 5000);
  if (cut.has_direct()) {
    EXPECT_THAT(
        error_text<DamagedCheckpoint>([&] { cut.read(0, 9000, room.bytes()); }),
        HasSubstr("file: the file was cut off while it was read"));
  }
}

TEST(NativeCheckpoint, NamesWhatIsDamaged) {
  const TemporaryFolder folder;
  const auto fresh = [&] {
    save(
        folder.path(),
        "a",
        {{{whole("x", at::rand({1 << 18})), whole("y", at::rand({8}))}}});
    return folder / "a/rank-0.safetensors";
  };
  at::Tensor x = at::empty({1 << 18});
  at::Tensor y = at::empty({8});
  {
    const fs::path file = fresh();
    alter(file, static_cast<std::streamoff>(fs::file_size(file)) - 3);
    const NativeSource source(folder / "a");
    source.read("x", 0, x);
    EXPECT_THAT(
        error_text<DamagedCheckpoint>([&] { source.read("y", 0, y); }),
        ::testing::AllOf(
            HasSubstr("rank-0.safetensors: the file is damaged"),
            HasSubstr("y, bytes")));
  }
  const auto error = [&] {
    return error_text<DamagedCheckpoint>(
        [&] { const NativeSource source(folder / "a"); });
  };
  fs::resize_file(fresh(), 1000);
  EXPECT_THAT(error(), HasSubstr("is cut off or was replaced (1000 bytes, "));
  EXPECT_THAT(
      find_checkpoints(folder.path())[0].problem,
      HasSubstr("rank-0.safetensors has 1000 bytes"));
  fs::remove(fresh());
  EXPECT_THAT(error(), HasSubstr("rank-0.safetensors: "));
  EXPECT_THAT(error(), HasSubstr("No such file"));
  fresh();
  alter(folder / "a/manifest.json", 2);
  EXPECT_THAT(error(), HasSubstr("manifest.json: the manifest is damaged"));
  fresh();
  {
    const NativeSource source(folder / "a");
    EXPECT_THAT(
        error_text<CheckpointError>([&] { source.read("z", 0, y); }),
        HasSubstr("\"z\" is not in the checkpoint"));
    EXPECT_THAT(
        error_text<CheckpointError>([&] { source.read("y", 1, y); }),
        HasSubstr("more elements are wanted than were saved (1 to 9 of 8)"));
  }
  save(
      folder.path(),
      "gap",
      {{{{.name = "x", .shape = {4}, .begin = 1, .values = at::ones({3})}}}});
  const NativeSource source(folder / "gap");
  at::Tensor four = at::empty({4});
  EXPECT_THAT(
      error_text<DamagedCheckpoint>([&] { source.read("x", 0, four); }),
      HasSubstr("no rank saved them (x, element 0)"));
}

TEST(NativeCheckpoint, OpensOnlyTheFilesThatItReads) {
  const TemporaryFolder folder;
  const at::Tensor x = at::rand({12});
  std::vector<Writer> files;
  for (std::int64_t begin = 0; begin < 12; begin += 3) {
    files.push_back(
        {{{.name = "x",
           .shape = {12},
           .begin = begin,
           .values = x.narrow(0, begin, 3).clone()}}});
  }
  save(folder.path(), "a", files);
  // As on a rank that was sent the manifest.
  const std::string text = read_manifest_text(folder / "a");
  const Manifest manifest = manifest_from_text(text, folder / "a");
  EXPECT_NO_THROW(check_files(manifest, folder / "a"));
  const NativeSource source(folder / "a", manifest, {});
  EXPECT_EQ(source.files_opened(), 0U);
  at::Tensor some = at::empty({4});
  source.read("x", 2, some);
  EXPECT_TRUE(at::equal(some, x.narrow(0, 2, 4)));
  EXPECT_EQ(source.files_opened(), 2U);
  source.read("x", 2, some);
  EXPECT_EQ(source.files_opened(), 2U);

  // A file that nobody reads harms nobody; whoever looks at all finds it.
  fs::remove(folder / "a/rank-3.safetensors");
  const NativeSource others(folder / "a", manifest, {});
  EXPECT_NO_THROW(others.read("x", 0, some));
  at::Tensor last = at::empty({3});
  EXPECT_THAT(
      error_text<DamagedCheckpoint>([&] { others.read("x", 9, last); }),
      HasSubstr("rank-3.safetensors"));
  EXPECT_THAT(
      error_text<DamagedCheckpoint>(
          [&] { check_files(manifest, folder / "a"); }),
      HasSubstr("rank-3.safetensors"));
  fs::resize_file(folder / "a/rank-2.safetensors", 7);
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(
        error_text<DamagedCheckpoint>([&] { others.read("x", 6, last); }),
        HasSubstr("is cut off or was replaced (7 bytes, "));
  }
}

/// The text of a manifest as version 1 of the format has it, which does not
/// look at a checksum.
std::string without_checksum(std::string text) {
  const std::string version = "\"version\": 2";
  return text.replace(text.find(version), version.size(), "\"version\": 1");
}

TEST(NativeCheckpoint, BelievesNoManifestWithAFlippedBit) {
  const TemporaryFolder folder;
  save(folder.path(), "a", {{{whole("x", at::ones({4}))}}}, 7);
  const fs::path path = folder / "a/manifest.json";
  const std::string text = read_file(path, 1 << 20);
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      EXPECT_THROW(manifest_from_text(flipped, folder / "a"), DamagedCheckpoint)
          << at << " " << bit;
    }
  }
  EXPECT_NO_THROW(manifest_from_text(without_checksum(text), folder / "a"));
}

TEST(NativeCheckpoint, HoldsItsCountsAgainstEachOther) {
  const auto error_of = [](std::int64_t step, nlohmann::json state) {
    Manifest manifest{.tag = "a", .step = step, .state = std::move(state)};
    try {
      manifest_from_text(to_text(manifest), "f");
      return std::string();
    } catch (const DamagedCheckpoint& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(error_of(7, {{"global_steps", 7}, {"skipped_steps", 7}}), "");
  EXPECT_THAT(
      error_of(7, {{"global_steps", 5}}),
      HasSubstr("the step is 7, but global_steps 5"));
  EXPECT_THAT(
      error_of(7, {{"skipped_steps", 8}}),
      HasSubstr("skipped_steps 8 of 7 steps"));
  EXPECT_THAT(
      error_of(7, {{"global_steps", 7.5}}),
      HasSubstr("not a whole number"));
  EXPECT_THAT(error_of(7, {{"samples", -1}}), HasSubstr("below zero"));
}

TEST(NativeCheckpoint, BearsAnyManifest) {
  const TemporaryFolder folder;
  save(
      folder.path(),
      "a",
      {{{{.name = "x",
          .shape = {4, 4},
          .box = {{0, 2}, {4, 2}},
          .begin = 1,
          .values = at::ones({7})},
         whole("y", at::ones({3}, at::kHalf))}}});
  const fs::path path = folder / "a/manifest.json";
  const std::string text = read_file(path, 1 << 20);
  const int accepted = cairn::testing::fuzz(
      {.seeds = {text, without_checksum(text)},
       .pieces =
           {"-1",
            "9223372036854775807",
            "1e99",
            "null",
            "[]",
            "{}",
            "\"\"",
            "18446744073709551615",
            "\"../a\"",
            "\"F64\"",
            "[0,0,0]"},
       .runs = 3000},
      [&](const std::string& damaged) {
        std::ofstream(path, std::ios::binary) << damaged;
        const NativeSource source(folder / "a");
        for (const auto& [name, tensor] : source.manifest().tensors) {
          at::Tensor some = at::empty({1}, tensor.type);
          source.read(name, 0, some);
        }
      });
  EXPECT_LT(accepted, 3000);
}

TEST(CheckpointFolder, ReplacesATagAtOnce) {
  const TemporaryFolder folder;
  save(folder.path(), "a", {{{whole("x", at::zeros({2}))}}});
  save(folder.path(), "a", {{{whole("x", at::ones({2}))}}});
  const NativeSource source(folder / "a");
  at::Tensor x = at::empty({2});
  source.read("x", 0, x);
  EXPECT_TRUE(at::equal(x, at::ones({2})));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a", "latest"));
}

/// The saved number of x, whose elements are all the same.
double number_in(const fs::path& place) {
  at::Tensor x = at::empty({2});
  NativeSource(place).read("x", 0, x);
  EXPECT_TRUE(at::equal(x, x[0].expand({2})));
  return x[0].item<double>();
}

TEST(CheckpointFolder, IsWholeAfterEveryFaultOfAReplacement) {
  const TemporaryFolder folder;
  const auto save_number = [&](double number) {
    save(folder.path(), "a", {{{whole("x", at::full({2}, number))}}});
  };
  cairn::testing::with_every_fault(
      folder.path(),
      [&] {
        remove_remains(folder.path());
        save_number(1);
      },
      [&] { save_number(2); },
      [&](const FaultOutcome& outcome) {
        const double found = number_in(folder / "a");
        EXPECT_TRUE(
            found == 2 || (found == 1 && (outcome.error || outcome.killed)));
        remove_remains(folder.path());
        EXPECT_THAT(names_in(folder.path()), ElementsAre("a", "latest"));
      });
}

TEST(CheckpointFolder, IsWholeAfterEveryFaultOfADeletion) {
  const TemporaryFolder folder;
  cairn::testing::with_every_fault(
      folder.path(),
      [&] {
        remove_remains(folder.path());
        save(folder.path(), "old", {{{whole("x", at::full({2}, 1.0))}}});
        save(folder.path(), "new", {{{whole("x", at::full({2}, 2.0))}}});
      },
      [&] { remove_checkpoint(folder.path(), "old"); },
      [&](const FaultOutcome& outcome) {
        EXPECT_EQ(number_in(folder / "new"), 2);
        remove_remains(folder.path());
        if (fs::exists(folder / "old")) {
          EXPECT_TRUE(outcome.error || outcome.killed);
          EXPECT_EQ(number_in(folder / "old"), 1);
          remove_checkpoint(folder.path(), "old");
        }
        EXPECT_THAT(names_in(folder.path()), ElementsAre("latest", "new"));
      });
}

TEST(CheckpointFolder, TriesTheLatestFirstThenTheNewest) {
  const TemporaryFolder folder;
  std::vector<std::string> warnings;
  const auto load_order = [&](const fs::path& place) {
    return checkpoints::load_order(place, [&](const std::string& problem) {
      warnings.push_back(problem);
    });
  };
  EXPECT_THAT(load_order(folder.path()), IsEmpty());
  EXPECT_THAT(load_order(folder / "none"), IsEmpty());
  for (const auto& [tag, saved_at] :
       {std::pair("b", 2), std::pair("c", 3), std::pair("a", 1)}) {
    save(folder.path(), tag, {{{whole("x", at::ones({1}))}}}, 0, saved_at);
  }
  EXPECT_THAT(load_order(folder.path()), ElementsAre("a", "c", "b"));
  fs::remove(folder / "latest");
  EXPECT_THAT(load_order(folder.path()), ElementsAre("c", "b", "a"));
  folder.write("latest", "b\n"); // with an editor
  EXPECT_THAT(load_order(folder.path()), ElementsAre("b", "c", "a"));
  EXPECT_THAT(warnings, IsEmpty());
  const std::string path = (folder / "latest").string();
  for (const std::string useless : {"../b", "", "\n", "\x1b[2Jb", "\xff"}) {
    folder.write("latest", useless);
    EXPECT_THAT(load_order(folder.path()), ElementsAre("c", "b", "a"));
    EXPECT_THAT(warnings, ElementsAre(HasSubstr(path)));
    warnings.clear();
  }
  fs::remove(folder / "latest");
  fs::create_symlink("latest", folder / "latest");
  EXPECT_THAT(load_order(folder.path()), ElementsAre("c", "b", "a"));
  EXPECT_THAT(
      warnings,
      ElementsAre(HasSubstr(path + ": cannot open: Too many levels")));
}

TEST(CheckpointFolder, SweepsUpRemains) {
  const TemporaryFolder folder;
  save(folder.path(), "a", {{{whole("x", at::ones({1}))}}});
  fs::create_directories(partial_folder(folder.path(), "b", "77"));
  fs::create_directories(folder / ".c.0.deleting");
  fs::create_directories(folder / ".mine");
  EXPECT_EQ(find_checkpoints(folder.path()).size(), 1);
  remove_remains(folder.path());
  EXPECT_FALSE(fs::exists(partial_folder(folder.path(), "b", "77")));
  EXPECT_FALSE(fs::exists(folder / ".c.0.deleting"));
  EXPECT_TRUE(fs::exists(folder / ".mine"));
  remove_checkpoint(folder.path(), "a");
  EXPECT_THAT(find_checkpoints(folder.path()), IsEmpty());
}

TEST(CheckpointFolder, HasOneWriter) {
  const TemporaryFolder folder;
  {
    const WriterLock lock(folder.path());
    EXPECT_THAT(
        error_text<CheckpointError>([&] { WriterLock other(folder.path()); }),
        HasSubstr("another job is writing to this folder"));
  }
  const WriterLock lock(folder.path());
}

std::vector<std::string> doomed(
    const std::vector<std::int64_t>& steps,
    const Retention& retention,
    std::int64_t saved = 60) {
  std::vector<FoundCheckpoint> found;
  for (const std::int64_t step : steps) {
    found.push_back(
        {.tag = std::to_string(step), .step = step, .saved_at = step});
  }
  return checkpoints_to_delete(found, retention, saved);
}

TEST(Retention, KeepsTheLastAndEveryNth) {
  const std::vector<std::int64_t> steps{10, 20, 30, 40, 50, 60};
  EXPECT_THAT(doomed(steps, {}), IsEmpty());
  EXPECT_THAT(
      doomed(steps, {.keep_last = 2}),
      ElementsAre("10", "20", "30", "40"));
  EXPECT_THAT(
      doomed(steps, {.keep_last = 1, .keep_every = 20}),
      ElementsAre("10", "30", "50"));
  EXPECT_THAT(doomed(steps, {.keep_every = 20}), IsEmpty());
  EXPECT_THAT(doomed(steps, {.keep_last = 9}), IsEmpty());
  EXPECT_THAT(doomed({}, {.keep_last = 1}), IsEmpty());
}

TEST(Retention, NeverTouchesTheNewestCompleteOne) {
  std::vector<FoundCheckpoint> found{
      {.tag = "1", .step = 1, .saved_at = 1},
      {.tag = "2", .step = 2, .saved_at = 2},
      {.tag = "3", .step = 3, .saved_at = 3, .problem = "torn"}};
  EXPECT_THAT(
      checkpoints_to_delete(found, {.keep_last = 1}, 2),
      ElementsAre("1"));
}

TEST(Retention, LeavesCheckpointsOfLaterSteps) {
  const std::vector<std::int64_t> steps{10, 20, 30, 40};
  EXPECT_THAT(doomed(steps, {.keep_last = 1}, 20), ElementsAre("10"));
  std::vector<FoundCheckpoint> found{
      {.tag = "1", .step = 1, .saved_at = 9}, // saved again after a roll back
      {.tag = "2", .step = 2, .saved_at = 2}};
  EXPECT_THAT(checkpoints_to_delete(found, {.keep_last = 1}, 1), IsEmpty());
  EXPECT_THAT(
      checkpoints_to_delete(found, {.keep_last = 1}, 2),
      ElementsAre("2"));
}

} // namespace
} // namespace cairn::checkpoints::native_test
