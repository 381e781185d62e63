#include <cairn/io/io_queue.h>

#include "io/cut_transfer.h"
#include "io/engine.h"
#include "io/transfer.h"

#include <cairn/base/error.h>
#include <cairn/io/aligned_buffer.h>

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

namespace cairn::io {
namespace {

void require_at_most(
    std::string_view key,
    std::int64_t value,
    std::int64_t most) {
  if (value < 1 || value > most) {
    throw ConfigError(
        {.what = fmt::format("must be from 1 to {}", most),
         .where = fmt::format("aio.{}", key),
         .values = fmt::format("it is {}", value)});
  }
}

void check(const config::AioConfig& config) {
  require_at_most("block_size", config.block_size, 1 << 30);
  require_at_most("queue_depth", config.queue_depth, 4096);
  require_at_most("intra_op_parallelism", config.intra_op_parallelism, 64);
  if (config.block_size % direct_alignment != 0) {
    throw ConfigError(
        {.what = fmt::format("must be a multiple of {}", direct_alignment),
         .where = "aio.block_size",
         .values = fmt::format("it is {}", config.block_size),
         .remedy = "1048576 suits most disks"});
  }
}

} // namespace

const char* to_string(EngineKind kind) {
  return kind == EngineKind::uring ? "io_uring" : "threads";
}

IoQueue::IoQueue(
    const config::AioConfig& config,
    std::optional<EngineKind> kind)
    : lost_(std::make_shared<detail::LostError>()) {
  check(config);
  block_size_ = static_cast<std::size_t>(config.block_size);
  if (kind != EngineKind::threads) {
    auto [engine, why_not] = detail::make_uring_engine(config);
    engine_ = std::move(engine);
    why_not_uring_ = std::move(why_not);
  }
  if (!engine_ && kind == EngineKind::uring) {
    throw ConfigError(
        {.what = "the kernel refuses io_uring: " + why_not_uring_,
         .remedy = "containers need it allowed in their seccomp profile, "
                   "kernels before 5.6 lack it; threads work everywhere"});
  }
  if (!engine_) {
    engine_ = detail::make_thread_engine(config);
    kind_ = EngineKind::threads;
  }
}

IoQueue::~IoQueue() = default;

PendingTransfer IoQueue::read(
    const AsyncFile& file,
    std::uint64_t offset,
    std::span<std::byte> into) {
  return start(detail::Direction::read, file, offset, into);
}

PendingTransfer IoQueue::write(
    const AsyncFile& file,
    std::uint64_t offset,
    std::span<const std::byte> from) {
  // Requests of both directions have the same type; a write only reads from the
  // memory.
  return start(
      detail::Direction::write,
      file,
      offset,
      {const_cast<std::byte*>(from.data()), from.size()});
}

PendingTransfer IoQueue::start(
    detail::Direction direction,
    const AsyncFile& file,
    std::uint64_t offset,
    std::span<std::byte> bytes) {
  lost_->throw_if_any();
  if (file.size_ &&
      (offset > *file.size_ || bytes.size() > *file.size_ - offset)) {
    throw InternalError(
        {.what = "a transfer behind the end",
         .where = file.path_->string(),
         .values = fmt::format(
             "{} bytes at offset {} of {}",
             bytes.size(),
             offset,
             *file.size_)});
  }
  if (bytes.empty()) {
    return {};
  }
  const std::uint64_t begin = file.offset_ + offset;
  const auto pieces = detail::cut_transfer(
      reinterpret_cast<std::uintptr_t>(bytes.data()),
      begin,
      bytes.size(),
      block_size_);
  auto transfer = std::make_shared<detail::Transfer>(
      direction,
      detail::Transfer::Target{file.file_, file.path_, file.offset_},
      pieces.size(),
      lost_);
  std::vector<detail::Request> requests;
  requests.reserve(pieces.size());
  for (const auto& piece : pieces) {
    requests.push_back(
        {transfer,
         bytes.data() + piece.begin,
         piece.size,
         begin + piece.begin});
  }
  engine_->submit(std::move(requests));
  return PendingTransfer(std::move(transfer));
}

} // namespace cairn::io
