#include "io/internal/file_stream.h"

#include "base/internal/crc32c.h"
#include "base/internal/file_calls.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace cairn::io {
namespace {

config::AioConfig requests(const FileStream::Options& options) {
  return {
      .block_size = static_cast<std::int64_t>(options.block_size),
      .queue_depth = static_cast<std::int64_t>(options.blocks)};
}

} // namespace

FileStream::Name::~Name() {
  if (!keep) {
    file_calls().unlinkat(AT_FDCWD, path.c_str(), 0);
  }
}

// Uses threads and not io_uring: they are as fast here, allowed everywhere, and
// tests can make their calls fail.
FileStream::FileStream(
    const std::filesystem::path& path,
    const Options& options)
    : file_(AsyncFile::create_new(path)),
      name_{path},
      queue_(requests(options), EngineKind::threads),
      block_size_(options.block_size),
      memory_(options.blocks * options.block_size),
      written_(options.blocks),
      reserved_(options.expected_size) {
  file_.reserve(0, reserved_);
}

FileStream::FileStream(const std::filesystem::path& path)
    : FileStream(path, Options{}) {}

void FileStream::write(std::span<const std::byte> bytes) {
  write_by(bytes, [](std::byte* to, std::span<const std::byte> from) {
    std::memcpy(to, from.data(), from.size());
  });
}

std::uint32_t FileStream::write_summed(
    std::span<const std::byte> bytes,
    std::uint32_t sum) {
  write_by(bytes, [&](std::byte* to, std::span<const std::byte> from) {
    sum = crc32c_copy(to, from, sum);
  });
  return sum;
}

template <typename Copy>
void FileStream::write_by(std::span<const std::byte> bytes, Copy&& copy) {
  while (!bytes.empty()) {
    const std::span<std::byte> into = room();
    const auto from = bytes.first(std::min(into.size(), bytes.size()));
    copy(into.data(), from);
    advance(from.size());
    bytes = bytes.subspan(from.size());
  }
}

std::span<std::byte> FileStream::room() {
  attempt([&] { written_[current_].wait(); });
  return current_block().subspan(filled_);
}

void FileStream::advance(std::size_t bytes) {
  const std::size_t most = block_size_ - filled_;
  if (bytes > most) {
    throw InternalError(
        {.what = "more bytes than there was room for",
         .where = path().string(),
         .values = fmt::format("{} of {}", bytes, most)});
  }
  filled_ += bytes;
  if (bytes == most) {
    attempt([&] { start_writing(); });
  }
}

void FileStream::start_writing() {
  written_[current_] =
      queue_.write(file_, offset_, current_block().first(filled_));
  offset_ += filled_;
  filled_ = 0;
  current_ = (current_ + 1) % written_.size();
}

std::span<std::byte> FileStream::current_block() const {
  return memory_.as<std::byte>().subspan(current_ * block_size_, block_size_);
}

void FileStream::finish() {
  attempt([&] {
    start_writing();
    for (PendingTransfer& block : written_) {
      block.wait();
    }
    if (reserved_ > size()) {
      file_.cut(size());
    }
    file_.sync();
  });
  name_.keep = true;
}

template <typename Step>
void FileStream::attempt(Step&& step) {
  if (name_.keep) {
    throw InternalError(
        {.what = "FileStream used after finish()", .where = path().string()});
  }
  if (problem_) {
    throw DataError(*problem_);
  }
  try {
    step();
  } catch (const DataError& error) {
    problem_ = error.problem();
    throw;
  }
}

} // namespace cairn::io
