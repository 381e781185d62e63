#include "io/internal/preflight.h"

#include "base/internal/file_error.h"
#include "base/internal/progress_line.h"

#include <cairn/base/error.h>
#include <cairn/io/aligned_buffer.h>

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <span>
#include <system_error>

namespace cairn::io {
namespace {

constexpr const char* another_folder =
    "set \"nvme_path\" to a folder on a fast local disk";

std::string shown(std::uint64_t bytes) {
  return amount(static_cast<double>(bytes), "B");
}

std::uint64_t free_space(const std::filesystem::path& folder) {
  struct statvfs space {};
  if (::statvfs(folder.c_str(), &space) != 0) {
    throw file_error("ask for the free space", folder, errno);
  }
  return static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

// Data that is neither zeros nor anything else that a disk could compress.
std::uint64_t pattern(std::uint64_t index) {
  index = (index ^ (index >> 30)) * 0xbf58476d1ce4e5b9U;
  index = (index ^ (index >> 27)) * 0x94d049bb133111ebU;
  return index ^ (index >> 31);
}

std::span<std::uint64_t> words(const AlignedBuffer& buffer) {
  return {
      reinterpret_cast<std::uint64_t*>(buffer.data()),
      buffer.size() / sizeof(std::uint64_t)};
}

void probe(Preflight& found, AsyncFile& file, IoQueue& queue) {
  const AlignedBuffer buffer(found.probe_bytes);
  for (std::size_t i = 0; i < words(buffer).size(); ++i) {
    words(buffer)[i] = pattern(i + 1);
  }
  const auto size = static_cast<double>(found.probe_bytes);
  file.reserve(0, found.probe_bytes);
  found.write_rate = size / seconds([&] {
                       queue.write(file, 0, buffer.bytes()).wait();
                       file.sync();
                     });
  file.drop_cache();
  std::memset(buffer.data(), 0, buffer.size());
  found.read_rate =
      size / seconds([&] { queue.read(file, 0, buffer.bytes()).wait(); });
  found.access = file.access();
  for (std::size_t i = 0; i < words(buffer).size(); ++i) {
    if (words(buffer)[i] != pattern(i + 1)) {
      throw DataError(
          {.what = "a test file read back other bytes than were written",
           .where = found.folder.string(),
           .values = fmt::format("at offset {}", i * sizeof(std::uint64_t)),
           .remedy = "do not use this disk"});
    }
  }
}

Preflight check(
    const std::filesystem::path& folder,
    std::uint64_t needed_bytes,
    const config::AioConfig& config,
    std::uint64_t probe_bytes) {
  IoQueue queue(config);
  AsyncFile file = AsyncFile::create_unnamed(folder);
  Preflight found{
      .folder = folder,
      .needed_bytes = needed_bytes,
      .free_bytes = free_space(folder),
      .engine = queue.engine(),
      .why_not_uring = queue.why_not_uring(),
      .access = file.access()};
  if (found.free_bytes < needed_bytes) {
    throw ConfigError(
        {.what = "too little space for what is to be stored here",
         .where = folder.string(),
         .values = fmt::format(
             "{} needed, {} free, {} short",
             shown(needed_bytes),
             shown(found.free_bytes),
             shown(needed_bytes - found.free_bytes)),
         .remedy = fmt::format(
             "free some space, or {}, or use more machines",
             another_folder)});
  }
  found.probe_bytes = std::min(probe_bytes, found.free_bytes / 2) /
      direct_alignment * direct_alignment;
  if (found.probe_bytes > 0) {
    probe(found, file, queue);
  }
  return found;
}

} // namespace

Preflight check_nvme_folder(
    const std::filesystem::path& folder,
    std::uint64_t needed_bytes,
    const config::AioConfig& config,
    std::uint64_t probe_bytes) {
  std::error_code problem;
  const auto status = std::filesystem::status(folder, problem);
  if (!std::filesystem::is_directory(status)) {
    throw ConfigError(
        {.what = !std::filesystem::exists(status) ? "there is no such folder"
                                                  : "this is not a folder",
         .where = folder.string(),
         .remedy = another_folder});
  }
  try {
    return check(folder, needed_bytes, config, probe_bytes);
  } catch (const DataError& error) {
    // Before training, the error is the choice of the folder.
    Problem wrong = error.problem();
    if (wrong.remedy.empty()) {
      wrong.remedy = another_folder;
    }
    throw ConfigError(std::move(wrong));
  }
}

std::string to_string(const Preflight& preflight) {
  std::string text = fmt::format(
      "{}: {} needed, {} free; {}",
      preflight.folder.string(),
      shown(preflight.needed_bytes),
      shown(preflight.free_bytes),
      to_string(preflight.engine));
  if (!preflight.why_not_uring.empty()) {
    text += fmt::format(" (io_uring: {})", preflight.why_not_uring);
  }
  text += fmt::format(", {}", to_string(preflight.access));
  if (preflight.probe_bytes > 0) {
    text += fmt::format(
        "; writes {}/s, reads {}/s (probe of {})",
        amount(preflight.write_rate, "B"),
        amount(preflight.read_rate, "B"),
        shown(preflight.probe_bytes));
  }
  return text;
}

} // namespace cairn::io
