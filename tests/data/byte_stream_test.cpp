#include <cairn/base/error.h>

#include "data/golden_indexed.h"
#include "data/internal/byte_stream.h"
#include "support/command.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn::data::byte_stream_test {
namespace {

using cairn::testing::TemporaryFolder;
using fixtures::slurp;
using ::testing::HasSubstr;

std::string read_all(const std::filesystem::path& file, std::size_t piece) {
  const auto stream = open_input(file);
  std::string all;
  std::vector<char> buffer(piece);
  while (const std::size_t got = stream->read(buffer)) {
    all.append(buffer.data(), got);
  }
  EXPECT_EQ(stream->read(buffer), 0U);
  EXPECT_EQ(stream->stored_size(), std::filesystem::file_size(file));
  EXPECT_EQ(stream->stored_position(), stream->stored_size());
  return all;
}

std::string refusal(const std::filesystem::path& file) {
  try {
    read_all(file, 1 << 16);
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

/// A text long enough for several buffers, and not the same everywhere.
std::string sample() {
  std::string text;
  for (int i = 0; text.size() < 1'200'000; ++i) {
    text += "line " + std::to_string(i * 7919 % 100'003) + " of some text\n";
  }
  return text;
}

class Packed : public ::testing::TestWithParam<std::string> {
 protected:
  /// The text, compressed by the tool itself.
  std::string pack(const std::string& text) const {
    folder_.write("plain", text);
    const auto result = cairn::testing::run(
        {"sh", "-c", GetParam() + " -c " + (folder_ / "plain").string()});
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }
  TemporaryFolder folder_;
};

TEST_P(Packed, IsUnpackedWhateverTheNameAndTheBuffer) {
  const std::string text = sample();
  const auto file = folder_.write("some.name", pack(text));
  EXPECT_EQ(read_all(file, 1 << 20), text);
  EXPECT_EQ(read_all(file, 1000), text);
}

TEST_P(Packed, MembersAreReadAsOne) {
  const std::string packed = pack("one\n") + pack("") + pack("two\n");
  EXPECT_EQ(read_all(folder_.write("x", packed), 3), "one\ntwo\n");
}

TEST_P(Packed, ATornFileIsAnError) {
  const std::string packed = pack(sample());
  const auto file = folder_.write("x", packed.substr(0, packed.size() / 2));
  EXPECT_THAT(refusal(file), HasSubstr("ends in the middle"));
  EXPECT_THAT(
      refusal(folder_.write("x", packed.substr(0, packed.size() - 1))),
      HasSubstr("ends in the middle"));
}

TEST_P(Packed, OtherBytesAtTheEndAreAnError) {
  const auto file = folder_.write("x", pack("text") + "and more");
  EXPECT_THAT(refusal(file), HasSubstr("x: "));
  EXPECT_NE(refusal(file), "accepted");
}

TEST_P(Packed, Fuzz) {
  const std::string packed = pack("some text, and some more text\n");
  const int accepted = cairn::testing::fuzz(
      {.seeds = {packed, packed + packed}, .runs = 500},
      [&](const std::string& bytes) {
        std::filesystem::remove(folder_ / "x");
        folder_.write("x", bytes);
        const auto stream = open_input(folder_ / "x");
        std::vector<char> buffer(1 << 16);
        std::size_t total = 0;
        while (const std::size_t got = stream->read(buffer)) {
          total += got;
          if (total > (1 << 26)) {
            break;
          }
        }
      });
  EXPECT_GT(accepted, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Tools,
    Packed,
    ::testing::Values("gzip", "bzip2", "xz", "zstd"),
    [](const auto& info) { return info.param; });

TEST(ByteStream, PlainTextIsLeftAlone) {
  const TemporaryFolder folder;
  for (const std::string text : {"", "x", "BZh9 is no magic", "{}\n"}) {
    EXPECT_EQ(read_all(folder.write("x", text), 100), text);
  }
  const std::string text = sample();
  EXPECT_EQ(read_all(folder.write("x.gz", text), 100'000), text);
}

TEST(ByteStream, FilesThatCannotBeReadAreNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      [&] { open_input(folder / "none"); },
      ::testing::ThrowsMessage<DataError>(HasSubstr("none: cannot open")));
  EXPECT_THAT(
      [&] { open_input(folder.path()); },
      ::testing::ThrowsMessage<DataError>(HasSubstr("Is a directory")));
}

} // namespace
} // namespace cairn::data::byte_stream_test
