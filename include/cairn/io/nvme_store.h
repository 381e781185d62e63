#pragma once

#include <cairn/config/zero_config.h>
#include <cairn/io/io_queue.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace cairn::io {

/// Named flat arrays in a folder on a fast disk:
///
///   NvmeStore store("/mnt/nvme", config.aio);
///   store.create("exp_avg", bytes);
///   store.write("exp_avg", 0, buffer.bytes()).wait();
///
/// All arrays are in one file without a name, so nothing is left behind and
/// several ranks and jobs may share the folder. Each array starts at a multiple
/// of `direct_alignment`; transfers of aligned memory at aligned offsets are
/// fast. Do not store results here: the arrays disappear with the object. One
/// thread at a time may call it; any thread may wait.
class NvmeStore {
 public:
  /// Throws DataError when no file can be made in `folder`.
  explicit NvmeStore(
      std::filesystem::path folder,
      const config::AioConfig& config = {},
      std::optional<EngineKind> kind = std::nullopt);

  /// Creates an array of zeros and allocates its space on disk at once: a full
  /// disk is a DataError here, not in the middle of training.
  void create(const std::string& name, std::uint64_t bytes);

  PendingTransfer read(
      const std::string& name,
      std::uint64_t offset,
      std::span<std::byte> into);
  PendingTransfer write(
      const std::string& name,
      std::uint64_t offset,
      std::span<const std::byte> from);

  std::uint64_t size(const std::string& name) const;
  /// The size of all arrays, including the padding between them.
  std::uint64_t bytes_on_disk() const noexcept { return end_; }
  Access access() const { return file_.access(); }
  const IoQueue& queue() const noexcept { return queue_; }

 private:
  struct Array {
    AsyncFile file;
    std::uint64_t bytes;
  };
  const Array& array(const std::string& name) const;

  std::filesystem::path folder_;
  IoQueue queue_;
  AsyncFile file_;
  std::map<std::string, Array> arrays_;
  std::uint64_t end_ = 0;
};

} // namespace cairn::io
