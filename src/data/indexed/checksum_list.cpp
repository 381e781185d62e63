#include "data/internal/checksum_list.h"
#include "base/internal/crc32c.h"
#include "data/internal/line_reader.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/base/mapped_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

namespace cairn::data {
namespace {

template <typename T>
bool take_number(std::string_view& text, T& number, int base) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  if (error != std::errc() || stop == end || *stop != ' ') {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()) + 1);
  return true;
}

} // namespace

FileChecksum checksum_of(
    const std::filesystem::path& file,
    const std::function<void(std::uint64_t bytes)>& progress) {
  const MappedFile mapped(file, MappedFile::Advice::sequential);
  FileChecksum sum{
      .name = file.filename().string(),
      .size = mapped.bytes().size()};
  constexpr std::size_t piece = 16 << 20;
  for (auto rest = mapped.bytes(); !rest.empty();) {
    const auto next = rest.first(std::min(piece, rest.size()));
    sum.crc = crc32c(next, sum.crc);
    progress(next.size());
    rest = rest.subspan(next.size());
  }
  return sum;
}

void write_checksums(
    const std::filesystem::path& file,
    const std::vector<FileChecksum>& checksums) {
  std::string text;
  std::set<std::string> names;
  for (const auto& sum : checksums) {
    if (!names.insert(sum.name).second ||
        sum.name.find('\n') != std::string::npos) {
      throw DataError(
          {.what = fmt::format("cannot list \"{}\" twice", sum.name),
           .where = file.string(),
           .remedy = "verify datasets of one folder at a time"});
    }
    text += fmt::format("{:08x} {} {}\n", sum.crc, sum.size, sum.name);
  }
  write_file_atomically(file, text);
}

std::vector<FileChecksum> read_checksums(const std::filesystem::path& file) {
  std::vector<FileChecksum> all;
  LineReader lines(file);
  while (const auto line = lines.next()) {
    std::string_view rest = *line;
    FileChecksum sum;
    if (!take_number(rest, sum.crc, 16) || !take_number(rest, sum.size, 10) ||
        rest.empty()) {
      throw DataError(
          {.what = "not a line of checksums: CRC SIZE NAME",
           .where = lines.where(),
           .remedy = "give a file that `cairn data verify --write` made"});
    }
    sum.name = rest;
    all.push_back(sum);
  }
  return all;
}

} // namespace cairn::data
