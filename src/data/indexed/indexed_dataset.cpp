#include <cairn/base/error.h>
#include <cairn/data/indexed_dataset.h>

#include "data/indexed/index_cursor.h"
#include "data/indexed/index_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

namespace cairn::data {
namespace {

template <typename Stored, typename Out>
void widen(
    std::span<const std::byte> bytes,
    std::span<Out> out,
    const std::filesystem::path& prefix) {
  const PackedArray<Stored> stored(bytes.data(), out.size());
  if constexpr (sizeof(Stored) > sizeof(Out)) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Stored id = stored[i];
      if (!std::in_range<Out>(id)) {
        throw DataError(
            {.what = fmt::format("the id {} does not fit 32 bits", id),
             .where = tokens_path(prefix).string()});
      }
      out[i] = static_cast<Out>(id);
    }
  } else if constexpr (std::is_same_v<Stored, Out>) {
    if (!out.empty()) {
      std::memcpy(out.data(), bytes.data(), bytes.size());
    }
  } else {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = stored[i];
    }
  }
}

template <typename Out>
void copy_ids(
    TokenType type,
    std::span<const std::byte> bytes,
    std::span<Out> out,
    const std::filesystem::path& prefix) {
  switch (type) {
    case TokenType::uint8:
      return widen<std::uint8_t>(bytes, out, prefix);
    case TokenType::int8:
      return widen<std::int8_t>(bytes, out, prefix);
    case TokenType::int16:
      return widen<std::int16_t>(bytes, out, prefix);
    case TokenType::int32:
      return widen<std::int32_t>(bytes, out, prefix);
    case TokenType::int64:
      return widen<std::int64_t>(bytes, out, prefix);
    case TokenType::uint16:
      return widen<std::uint16_t>(bytes, out, prefix);
    case TokenType::float32:
    case TokenType::float64:
      throw DataError(
          {.what = fmt::format(
               "holds {} numbers, which are no token ids",
               name_of(type)),
           .where = tokens_path(prefix).string(),
           .remedy = "give the files that a preprocessing run wrote"});
  }
  throw InternalError({.what = "no such token type"});
}

std::filesystem::path with_suffix(
    const std::filesystem::path& prefix,
    const char* suffix) {
  auto path = prefix;
  path += suffix;
  return path;
}

} // namespace

std::filesystem::path index_path(const std::filesystem::path& prefix) {
  return with_suffix(prefix, ".idx");
}

std::filesystem::path tokens_path(const std::filesystem::path& prefix) {
  return with_suffix(prefix, ".bin");
}

IndexedDataset::IndexedDataset(std::filesystem::path prefix)
    : prefix_(std::move(prefix)),
      index_(index_path(prefix_), MappedFile::Advice::sequential),
      tokens_(tokens_path(prefix_)) {
  const std::string_view start(
      reinterpret_cast<const char*>(index_.bytes().data()),
      std::min<std::size_t>(index_.bytes().size(), mmap_magic.size()));
  if (start == mmap_magic) {
    open_mmap();
  } else if (start.starts_with(classic_magic)) {
    open_classic();
  } else {
    throw DataError(
        {.what = "not an index of tokens: it begins with neither MMIDIDX nor "
                 "TNTIDX",
         .where = index_path(prefix_).string(),
         .remedy = "give the prefix of a .bin and .idx pair"});
  }
  index_.advise(MappedFile::Advice::normal);
}

namespace {

/// Sequences that are checked at a time. Hundreds of millions of them are
/// checked when a file is opened: the loops over a block have no branches.
constexpr std::size_t block = 4096;

/// True when each of `count` sequences begins where the one before ends; the
/// first begins at `end`, which becomes the end of the last. (The lengths of a
/// block have 43 bits at most, so that nothing can overflow.)
bool chained(
    const PackedArray<std::int32_t>& lengths,
    const PackedArray<std::int64_t>& offsets,
    std::size_t first,
    std::size_t count,
    std::size_t width,
    std::uint64_t& end) {
  std::uint64_t differing = 0;
  std::int32_t signs = 0;
  std::uint64_t expected = end;
  for (std::size_t i = first; i < first + count; ++i) {
    const std::int32_t length = lengths[i];
    signs |= length;
    differing |= static_cast<std::uint64_t>(offsets[i]) ^ expected;
    expected += static_cast<std::uint64_t>(length) * width;
  }
  end = expected;
  return differing == 0 && signs >= 0;
}

/// Names the first sequence from `first` on that is not where it must be.
[[noreturn]] void refuse_broken_chain(
    const IndexCursor& cursor,
    const PackedArray<std::int32_t>& lengths,
    const PackedArray<std::int64_t>& offsets,
    std::size_t first,
    std::size_t width,
    std::uint64_t size) {
  std::uint64_t end = first == 0
      ? 0
      : static_cast<std::uint64_t>(offsets[first - 1]) +
          static_cast<std::uint64_t>(lengths[first - 1]) * width;
  for (std::size_t i = first;; ++i) {
    const std::int64_t length = lengths[i];
    const std::int64_t offset = offsets[i];
    const auto bytes = static_cast<std::uint64_t>(length) * width;
    if (length < 0 || offset < 0 || static_cast<std::uint64_t>(offset) > size ||
        bytes > size - static_cast<std::uint64_t>(offset)) {
      cursor.refuse_sequence(i, offset, length, width, size);
    }
    if (static_cast<std::uint64_t>(offset) != end) {
      cursor.refuse(
          fmt::format(
              "sequence {} does not begin where the one before ends",
              i),
          fmt::format("byte {} of the .bin file, not {}", offset, end));
    }
    end += bytes;
  }
}

} // namespace

void IndexedDataset::open_mmap() {
  IndexCursor cursor(index_.bytes(), index_path(prefix_));
  cursor.skip(mmap_magic.size());
  cursor.expect_version();
  format_ = IndexFormat::mmap;
  type_ = cursor.token_type(cursor.take<std::uint8_t>());
  token_size_ = size_of(type_);
  const auto sequences = cursor.take<std::uint64_t>();
  const auto documents = cursor.take<std::uint64_t>();
  lengths_ = cursor.array<std::int32_t>(sequences, "lengths");
  offsets_ = cursor.array<std::int64_t>(sequences, "offsets");
  documents_ = cursor.array<std::int64_t>(documents, "documents");
  sequence_count_ = static_cast<std::size_t>(sequences);
  // Multimodal files end with one byte per sequence.
  multimodal_ = sequence_count_ > 0 && cursor.left() == sequence_count_;
  if (multimodal_) {
    cursor.skip(sequence_count_);
  }
  cursor.expect_end();

  const std::uint64_t size = tokens_.bytes().size();
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < sequence_count_; i += block) {
    const std::size_t count = std::min(block, sequence_count_ - i);
    if (!chained(lengths_, offsets_, i, count, token_size_, end) ||
        end > size) {
      refuse_broken_chain(cursor, lengths_, offsets_, i, token_size_, size);
    }
  }
  if (end != size) {
    cursor.refuse_size(end, size);
  }
  token_count_ = end / token_size_;
  check_documents(static_cast<std::int64_t>(sequence_count_));
}

void IndexedDataset::open_classic() {
  IndexCursor cursor(index_.bytes(), index_path(prefix_));
  cursor.skip(classic_magic.size());
  cursor.expect_version();
  format_ = IndexFormat::classic;
  type_ = cursor.token_type(cursor.take<std::uint64_t>());
  token_size_ = size_of(type_);
  cursor.expect_token_size(type_, cursor.take<std::uint64_t>());
  const auto sequences = cursor.take<std::uint64_t>();
  const auto sizes = cursor.take<std::uint64_t>();
  const auto documents = cursor.take<std::uint64_t>();
  if (sizes != sequences) {
    cursor.refuse(
        "its sequences have more than one dimension",
        fmt::format("{} sequences, {} sizes", sequences, sizes));
  }
  // The first check bounds `sequences` by the file's size, so that `sequences +
  // 1` cannot overflow.
  cursor.expect_room(sequences, sizeof(std::int64_t), "dimensions");
  const auto dimensions =
      cursor.array<std::int64_t>(sequences + 1, "dimensions");
  offsets_ = cursor.array<std::int64_t>(sequences + 1, "offsets");
  sizes_ = cursor.array<std::int64_t>(sequences, "sizes");
  documents_ = cursor.array<std::int64_t>(documents, "documents");
  cursor.expect_end();
  sequence_count_ = static_cast<std::size_t>(sequences);

  const std::uint64_t size = tokens_.bytes().size();
  const auto total = static_cast<std::int64_t>(size / token_size_);
  if (offsets_[0] != 0 || dimensions[0] != 0) {
    cursor.refuse("its first sequence does not begin at 0");
  }
  for (std::size_t i = 0; i < sequence_count_; ++i) {
    const std::int64_t begin = offsets_[i];
    const std::int64_t length = sizes_[i];
    if (dimensions[i + 1] != static_cast<std::int64_t>(i) + 1) {
      cursor.refuse(
          "a sequence has more than one dimension",
          fmt::format("sequence {}", i));
    }
    // `begin` is within the file: it is 0 or the end of the sequence before.
    if (length < 0 || length > total - begin ||
        offsets_[i + 1] != begin + length) {
      cursor.refuse_sequence(i, begin, length, 1, size / token_size_);
    }
  }
  token_count_ = static_cast<std::uint64_t>(offsets_[sequence_count_]);
  if (token_count_ * token_size_ != size) {
    cursor.refuse_size(token_count_ * token_size_, size);
  }
  check_documents(static_cast<std::int64_t>(sequence_count_));
}

void IndexedDataset::check_documents(std::int64_t count) const {
  const auto refuse = [&](std::string_view what, std::size_t document) {
    throw DataError(
        {.what = std::string(what),
         .where = index_path(prefix_).string(),
         .values = fmt::format("document {}", document),
         .remedy = "the file is damaged: make it again"});
  };
  if (documents_.size() == 0 || documents_[0] != 0) {
    refuse("its documents do not begin with sequence 0", 0);
  }
  for (std::size_t first = 1; first < documents_.size(); first += block) {
    const std::size_t end = std::min(documents_.size(), first + block);
    std::size_t falling = 0;
    for (std::size_t i = first; i < end; ++i) {
      falling += documents_[i] < documents_[i - 1] ? 1 : 0;
    }
    if (falling == 0 && documents_[end - 1] <= count) {
      continue;
    }
    for (std::size_t i = first;; ++i) {
      if (documents_[i] < documents_[i - 1] || documents_[i] > count) {
        refuse("its documents are not in order", i - 1);
      }
    }
  }
  if (documents_[documents_.size() - 1] != count) {
    refuse(
        "its documents do not end with the last sequence",
        documents_.size() - 1);
  }
}

std::span<const std::byte> IndexedDataset::bytes(std::size_t sequence) const {
  return part(sequence, 0, length(sequence));
}

std::span<const std::byte> IndexedDataset::part(
    std::size_t sequence,
    std::size_t offset,
    std::size_t count) const {
  const std::size_t length = this->length(sequence);
  if (offset > length || count > length - offset) {
    throw InternalError(
        {.what = fmt::format(
             "tokens {} to {} asked of a sequence of {}",
             offset,
             offset + count,
             length),
         .where = fmt::format("{}, sequence {}", prefix_.string(), sequence)});
  }
  auto begin = static_cast<std::size_t>(offsets_[sequence]);
  if (format_ == IndexFormat::classic) {
    begin *= token_size_;
  }
  return tokens_.bytes().subspan(
      begin + offset * token_size_,
      count * token_size_);
}

void IndexedDataset::read(
    std::size_t sequence,
    std::size_t offset,
    std::span<std::int64_t> out) const {
  copy_ids(type_, part(sequence, offset, out.size()), out, prefix_);
}

void IndexedDataset::read(
    std::size_t sequence,
    std::size_t offset,
    std::span<std::int32_t> out) const {
  copy_ids(type_, part(sequence, offset, out.size()), out, prefix_);
}

void IndexedDataset::refuse_sequence(std::size_t sequence) const {
  throw InternalError(
      {.what = fmt::format("there is no sequence {}", sequence),
       .where = prefix_.string(),
       .values = fmt::format("{} sequences", sequence_count_)});
}

} // namespace cairn::data
