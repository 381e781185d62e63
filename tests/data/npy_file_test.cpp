#include "data/indexed/npy_file.h"
#include "data/gpt_golden.h"
#include "data/indexed/npy_header.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::data::npy_file_test {
namespace {

using testing::TemporaryFolder;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(NpyFile, ReadsAndWritesWhatNumpyDoes) {
  const TemporaryFolder folder;
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(gpt_golden(""))) {
    if (entry.path().extension() == ".npy") {
      const IndexArray array = load_npy(entry.path());
      save_npy(folder / "copy.npy", array);
      EXPECT_EQ(
          read_file(folder / "copy.npy", 1 << 20),
          read_file(entry.path(), 1 << 20))
          << entry.path();
      ++files;
    }
  }
  EXPECT_EQ(files, 103);
}

TEST(NpyFile, TypesAndShapes) {
  const TemporaryFolder folder;
  const auto check = [&](auto value, IndexType type) {
    using T = decltype(value);
    const std::vector<T> values{0, 1, 7};
    save_npy(folder / "x.npy", IndexArray::of(values));
    const IndexArray array = load_npy(folder / "x.npy");
    EXPECT_EQ(array.type(), type);
    EXPECT_EQ(array.shape(), std::vector<std::size_t>{3});
    EXPECT_EQ(array[2], 7);
    const auto read = array.values<T>();
    EXPECT_EQ(std::vector<T>(read.begin(), read.end()), values);
  };
  check(std::int16_t{}, IndexType::int16);
  check(std::int32_t{}, IndexType::int32);
  check(std::uint32_t{}, IndexType::uint32);
  check(std::int64_t{}, IndexType::int64);
  check(std::uint64_t{}, IndexType::uint64);
  save_npy(folder / "x.npy", IndexArray::of(std::vector<std::int64_t>{}));
  EXPECT_EQ(load_npy(folder / "x.npy").size(), 0);
}

/// A file with this dictionary and so many bytes of data.
std::string npy(const std::string& dictionary, std::size_t data) {
  std::string text = dictionary;
  text.append(117 - text.size(), ' ');
  text += '\n';
  std::string file("\x93NUMPY\1\0", 8);
  file += static_cast<char>(text.size());
  file += '\0';
  return file + text + std::string(data, '\0');
}

TEST(NpyFile, RefusesWhatItCannotUse) {
  const auto parse = [](const std::string& file) {
    return parse_npy_header(bytes_of(file), "file");
  };
  const std::string good =
      "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }";
  EXPECT_EQ(parse(npy(good, 12)).shape, std::vector<std::size_t>{3});
  EXPECT_THROW(parse(npy(good, 11)), DataError);
  EXPECT_THROW(parse(npy(good, 13)), DataError);
  EXPECT_THROW(parse(npy(good, 12).substr(0, 60)), DataError);
  EXPECT_THROW(parse(""), DataError);
  EXPECT_THROW(parse("PK\3\4 something else"), DataError);
  for (const std::string bad :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '>i4', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<i4', 'fortran_order': True, 'shape': (3,), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3,1,1), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (-3,), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), } x",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3,",
        "{'descr': '<i4', 'shape': (3,), }",
        "{'descr': '<i4', 'fortran_order': False, }",
        "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<i4', 'fortran_order': False, 'other': (3,), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': "
        "(4611686018427387904, 4), }"}) {
    EXPECT_THROW(parse(npy(bad, 12)), DataError) << bad;
  }
}

TEST(NpyFile, DataThatIsNotAlignedIsRefused) {
  std::string text = "{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}";
  text.append(68 - text.size(), ' ');
  std::string file("\x93NUMPY\1\0", 8);
  file += static_cast<char>(text.size());
  file += '\0';
  EXPECT_THROW(
      parse_npy_header(bytes_of(file + text + std::string(8, '\0')), "file"),
      DataError);
}

TEST(NpyFile, NoHeaderBreaksTheReader) {
  const auto array = [](std::vector<std::int32_t> values) {
    const IndexArray index = IndexArray::of(std::move(values));
    std::string file = npy_header_text(index.type(), index.shape());
    file.append(
        reinterpret_cast<const char*>(index.bytes().data()),
        index.bytes().size());
    return file;
  };
  const int accepted = testing::fuzz(
      {.seeds = {array({}), array({1, 2, 3}), npy("{}", 0)},
       .pieces =
           {"'descr'",
            "'shape'",
            "'fortran_order'",
            "'<i8'",
            "False",
            "(18446744073709551615,)",
            "(2147483648, 4294967296)",
            std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12),
            "{",
            "}",
            "'"}},
      [](const std::string& file) {
        const NpyHeader header = parse_npy_header(bytes_of(file), "file");
        const auto data = bytes_of(file).subspan(header.data_offset);
        std::uint64_t elements = 1;
        for (const std::size_t extent : header.shape) {
          elements *= extent;
        }
        ASSERT_EQ(data.size(), elements * size_of(header.type));
      });
  EXPECT_GT(accepted, 0);
}

} // namespace
} // namespace cairn::data::npy_file_test
