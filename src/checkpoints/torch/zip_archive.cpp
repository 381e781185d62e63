#include "checkpoints/torch/zip_archive.h"

#include "base/internal/zip_members.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

namespace {

[[noreturn]] void torn_archive(
    const std::filesystem::path& path,
    std::string why) {
  throw CheckpointError(
      {.what = "not a complete ZIP archive",
       .where = path.string(),
       .values = std::move(why),
       .remedy = "copy or save it again"});
}

bool leads_out(std::string_view name) {
  return name.empty() || name.front() == '/' ||
      name.find('\\') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos || name == ".." ||
      name.starts_with("../") || name.ends_with("/..") ||
      name.find("/../") != std::string_view::npos;
}

void check(const ZipMember& member, const std::filesystem::path& path) {
  if (leads_out(member.name)) {
    throw CheckpointError(
        {.what = "a member's name leads out of the archive",
         .where = path.string(),
         .values = member.name});
  }
  if (member.method != 0 || member.packed.size() != member.size ||
      member.encrypted()) {
    throw CheckpointError(
        {.what = "a member is compressed or encrypted",
         .where = path.string(),
         .values = member.name,
         .remedy = "torch.save stores members as they are: save it again"});
  }
}

} // namespace

ZipArchive::ZipArchive(const std::filesystem::path& path)
    : file_(std::make_shared<MappedFile>(path)) {
  read(file_->bytes(), path);
}

ZipArchive::ZipArchive(
    std::shared_ptr<const MappedFile> file,
    std::span<const std::byte> archive,
    const std::filesystem::path& path)
    : file_(std::move(file)) {
  read(archive, path);
}

void ZipArchive::read(
    std::span<const std::byte> file,
    const std::filesystem::path& path) {
  const auto broken = [&](std::uint64_t at) {
    torn_archive(path, fmt::format("at byte {} of {}", at, file.size()));
  };
  std::vector<std::pair<std::uint64_t, std::uint64_t>> used;
  for (const ZipMember& member : zip_members(file, broken)) {
    check(member, path);
    if (!members_.emplace(member.name, member.packed).second) {
      torn_archive(path, fmt::format("{} is there twice", member.name));
    }
    used.emplace_back(
        member.header_at,
        member.packed.data() - file.data() + member.packed.size());
  }
  std::ranges::sort(used);
  for (std::size_t i = 1; i < used.size(); ++i) {
    if (used[i].first < used[i - 1].second) {
      torn_archive(path, "members overlap");
    }
  }
}

} // namespace cairn::checkpoints
