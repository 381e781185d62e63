#pragma once

#include <cairn/base/mapped_file.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

namespace cairn::data {

/// The type of a token in a .bin file; the values are the codes in .idx files.
enum class TokenType : std::uint8_t {
  uint8 = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  float64 = 6,
  float32 = 7,
  uint16 = 8,
};

std::size_t size_of(TokenType type);
std::string_view name_of(TokenType type);

/// The type by Megatron's rule: uint16 below 65500 entries, else int32.
TokenType token_type_for(std::size_t vocab_size);

/// The two index formats: `mmap` (MMIDIDX) is the current one; `classic`
/// (TNTIDX) is what --dataset-impl lazy and cached use.
enum class IndexFormat { mmap, classic };

/// An array inside a mapped file, possibly unaligned.
template <typename T>
class PackedArray {
 public:
  PackedArray() = default;
  PackedArray(const std::byte* data, std::size_t size)
      : data_(data), size_(size) {}
  std::size_t size() const noexcept { return size_; }
  T operator[](std::size_t index) const noexcept {
    T value;
    std::memcpy(&value, data_ + index * sizeof(T), sizeof(T));
    return value;
  }
  const std::byte* data() const noexcept { return data_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// PREFIX.bin and PREFIX.idx as Megatron writes them, mapped and checked when
/// opened: a torn, truncated or hostile pair is a DataError, never a crash. A
/// sequence is a document or a sentence of one; documents are runs of
/// sequences. Any number of threads may read.
class IndexedDataset {
 public:
  explicit IndexedDataset(std::filesystem::path prefix);

  const std::filesystem::path& prefix() const noexcept { return prefix_; }
  IndexFormat format() const noexcept { return format_; }
  TokenType type() const noexcept { return type_; }
  /// True when the sequences have modes, as in Megatron's multimodal files. The
  /// modes are not read.
  bool multimodal() const noexcept { return multimodal_; }

  std::size_t sequence_count() const noexcept { return sequence_count_; }
  std::size_t document_count() const noexcept { return documents_.size() - 1; }
  std::uint64_t token_count() const noexcept { return token_count_; }

  /// The number of tokens in a sequence.
  std::size_t length(std::size_t sequence) const {
    require(sequence);
    return static_cast<std::size_t>(
        format_ == IndexFormat::mmap ? lengths_[sequence] : sizes_[sequence]);
  }
  /// The first sequence of each document, and the end of the last document:
  /// documents + 1 values.
  PackedArray<std::int64_t> document_indices() const noexcept {
    return documents_;
  }

  /// The stored bytes of a sequence, in place.
  std::span<const std::byte> bytes(std::size_t sequence) const;

  /// Copies tokens [offset, offset + out.size()) of a sequence. Throws
  /// InternalError when the sequence has fewer tokens. Throws DataError for a
  /// file of floating-point numbers, which can be opened but has no ids, and
  /// for an id that does not fit.
  void read(
      std::size_t sequence,
      std::size_t offset,
      std::span<std::int64_t> out) const;
  void read(
      std::size_t sequence,
      std::size_t offset,
      std::span<std::int32_t> out) const;

 private:
  void open_mmap();
  void open_classic();
  void check_documents(std::int64_t count) const;
  void require(std::size_t sequence) const {
    if (sequence >= sequence_count_) {
      refuse_sequence(sequence);
    }
  }
  [[noreturn]] void refuse_sequence(std::size_t sequence) const;
  std::span<const std::byte> part(
      std::size_t sequence,
      std::size_t offset,
      std::size_t count) const;

  std::filesystem::path prefix_;
  MappedFile index_;
  MappedFile tokens_;
  IndexFormat format_ = IndexFormat::mmap;
  TokenType type_ = TokenType::int32;
  bool multimodal_ = false;
  std::size_t token_size_ = 4;
  std::size_t sequence_count_ = 0;
  std::uint64_t token_count_ = 0;
  PackedArray<std::int32_t> lengths_; ///< in an mmap index
  PackedArray<std::int64_t> sizes_;   ///< lengths in a classic index
  /// Start of each sequence: in bytes for mmap, in tokens for classic.
  PackedArray<std::int64_t> offsets_;
  PackedArray<std::int64_t> documents_;
};

/// The paths PREFIX.idx and PREFIX.bin.
std::filesystem::path index_path(const std::filesystem::path& prefix);
std::filesystem::path tokens_path(const std::filesystem::path& prefix);

} // namespace cairn::data
