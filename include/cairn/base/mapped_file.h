#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace cairn::inline base {

/// A whole file as read-only memory, loaded page by page on first touch. An
/// empty file gives an empty span.
///
/// A file replaced by renaming (AtomicFile) is safe: the old content stays
/// mapped. A file truncated in place is not: touching a page past its new end
/// raises SIGBUS, and the rest of the last page reads as zero. No format check
/// can protect against a writer that shrinks a mapped file, so Cairn maps only
/// files that are written once.
class MappedFile {
 public:
  /// The order in which pages will be read; the kernel adapts its read-ahead.
  enum class Advice { normal, sequential, random, will_need };

  explicit MappedFile(
      const std::filesystem::path& path,
      Advice advice = Advice::normal);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  /// Advises the kernel about the whole file; may be called again when the way
  /// of reading changes.
  void advise(Advice advice) const noexcept;

 private:
  std::span<const std::byte> bytes_;
};

} // namespace cairn::base
