#include "checkpoint/zip_archive.h"

#include "checkpoint/little_endian.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint32_t local_mark = 0x04034b50;
constexpr std::uint32_t central_mark = 0x02014b50;
constexpr std::uint32_t end_mark = 0x06054b50;
constexpr std::uint32_t end64_mark = 0x06064b50;
constexpr std::uint32_t locator64_mark = 0x07064b50;
constexpr std::size_t end_size = 22;
constexpr std::uint32_t in_extra_field = 0xffffffff;

[[noreturn]] void torn(
    const std::filesystem::path& path,
    std::string_view why) {
  throw CheckpointError(
      {.what = "not a complete ZIP archive",
       .where = path.string(),
       .values = std::string(why),
       .remedy = "copy or save it again"});
}

struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
};

/// The record at the end of the file, which a comment may follow.
Directory find_directory(Bytes file, const std::filesystem::path& path) {
  constexpr std::size_t longest_comment = 0xffff;
  if (file.size() < end_size) {
    torn(path, "too short");
  }
  const std::size_t last = file.size() - end_size;
  const std::size_t first = last > longest_comment ? last - longest_comment : 0;
  std::size_t at = last;
  while (little_endian<std::uint32_t>(file, at) != end_mark) {
    if (at == first) {
      torn(path, "no directory at its end");
    }
    --at;
  }
  Directory found{
      .entries = little_endian<std::uint16_t>(file, at + 10),
      .size = little_endian<std::uint32_t>(file, at + 12),
      .offset = little_endian<std::uint32_t>(file, at + 16)};
  if (at >= 20 &&
      little_endian<std::uint32_t>(file, at - 20) == locator64_mark) {
    const auto place = little_endian<std::uint64_t>(file, at - 12);
    if (place > file.size() || file.size() - place < 56 ||
        little_endian<std::uint32_t>(file, place) != end64_mark) {
      torn(path, "its 64-bit directory is not where it should be");
    }
    found = {
        .entries = little_endian<std::uint64_t>(file, place + 32),
        .size = little_endian<std::uint64_t>(file, place + 40),
        .offset = little_endian<std::uint64_t>(file, place + 48)};
  }
  if (found.offset > file.size() || found.size > file.size() - found.offset) {
    torn(path, "its directory reaches beyond the file");
  }
  return found;
}

struct Entry {
  std::string name;
  std::uint64_t size = 0;
  std::uint64_t offset = 0; ///< of the local header
};

/// Sizes and offsets over 4 GB are in an extra field, in this order.
void read_extra(
    Bytes extra,
    std::uint64_t& stored,
    Entry& entry,
    const std::filesystem::path& path) {
  while (extra.size() >= 4) {
    const auto id = little_endian<std::uint16_t>(extra, 0);
    const std::size_t size = little_endian<std::uint16_t>(extra, 2);
    if (size > extra.size() - 4) {
      return; // padding
    }
    if (id == 1) {
      std::size_t at = 4;
      for (std::uint64_t* value : {&entry.size, &stored, &entry.offset}) {
        if (*value == in_extra_field) {
          if (at + 8 > size + 4) {
            torn(path, "a 64-bit field is cut short");
          }
          *value = little_endian<std::uint64_t>(extra, at);
          at += 8;
        }
      }
      return;
    }
    extra = extra.subspan(size + 4);
  }
}

bool leads_out(std::string_view name) {
  return name.empty() || name.front() == '/' ||
      name.find('\\') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos || name == ".." ||
      name.starts_with("../") || name.ends_with("/..") ||
      name.find("/../") != std::string_view::npos;
}

/// Reads one directory entry and cuts it off.
Entry take_entry(Bytes& directory, const std::filesystem::path& path) {
  if (directory.size() < 46 ||
      little_endian<std::uint32_t>(directory, 0) != central_mark) {
    torn(path, "its directory is damaged");
  }
  const auto flags = little_endian<std::uint16_t>(directory, 8);
  const auto method = little_endian<std::uint16_t>(directory, 10);
  std::uint64_t stored = little_endian<std::uint32_t>(directory, 20);
  const std::size_t name_size = little_endian<std::uint16_t>(directory, 28);
  const std::size_t extra_size = little_endian<std::uint16_t>(directory, 30);
  const std::size_t comment = little_endian<std::uint16_t>(directory, 32);
  Entry entry{
      .size = little_endian<std::uint32_t>(directory, 24),
      .offset = little_endian<std::uint32_t>(directory, 42)};
  const std::size_t all = 46 + name_size + extra_size + comment;
  if (all > directory.size()) {
    torn(path, "its directory is cut short");
  }
  entry.name.assign(
      reinterpret_cast<const char*>(directory.data()) + 46,
      name_size);
  read_extra(
      directory.subspan(46 + name_size, extra_size),
      stored,
      entry,
      path);
  directory = directory.subspan(all);
  if (leads_out(entry.name)) {
    throw CheckpointError(
        {.what = "a member's name leads out of the archive",
         .where = path.string(),
         .values = entry.name});
  }
  if (method != 0 || stored != entry.size || (flags & 1) != 0) {
    throw CheckpointError(
        {.what = "a member is compressed or encrypted",
         .where = path.string(),
         .values = entry.name,
         .remedy = "torch.save stores members as they are: save it again"});
  }
  return entry;
}

} // namespace

bool ZipArchive::begins(Bytes bytes) {
  return bytes.size() >= 4 &&
      little_endian<std::uint32_t>(bytes, 0) == local_mark;
}

ZipArchive::ZipArchive(const std::filesystem::path& path)
    : file_(std::make_shared<MappedFile>(path)) {
  const Bytes file = file_->bytes();
  const Directory directory = find_directory(file, path);
  Bytes rest = file.subspan(directory.offset, directory.size);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> used;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const Entry entry = take_entry(rest, path);
    const std::uint64_t end = directory.offset;
    if (entry.offset > end || end - entry.offset < 30 ||
        little_endian<std::uint32_t>(file, entry.offset) != local_mark) {
      torn(path, fmt::format("{} is not where it should be", entry.name));
    }
    const std::uint64_t begin = entry.offset + 30 +
        little_endian<std::uint16_t>(file, entry.offset + 26) +
        little_endian<std::uint16_t>(file, entry.offset + 28);
    if (begin > end || entry.size > end - begin) {
      torn(path, fmt::format("{} reaches beyond the file", entry.name));
    }
    if (!members_.emplace(entry.name, file.subspan(begin, entry.size)).second) {
      torn(path, fmt::format("{} is there twice", entry.name));
    }
    used.emplace_back(entry.offset, begin + entry.size);
  }
  std::ranges::sort(used);
  for (std::size_t i = 1; i < used.size(); ++i) {
    if (used[i].first < used[i - 1].second) {
      torn(path, "members overlap");
    }
  }
}

} // namespace cairn::checkpoints
