#include <cairn/base/error.h>
#include <cairn/data/indexed_writer.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace cairn::data {
namespace {

/// Stores `Count` ids as `Stored`; the result is 0 if all of them fit. The
/// fixed count and the local arrays, which alias nothing, let compilers make
/// vector code.
template <typename Stored, std::size_t Count>
std::int32_t store(const std::int32_t* ids, std::byte* to) {
  std::array<std::int32_t, Count> in;
  std::array<Stored, Count> out;
  std::memcpy(in.data(), ids, sizeof(in));
  std::int32_t lost = 0;
  for (std::size_t i = 0; i < Count; ++i) {
    out[i] = static_cast<Stored>(in[i]);
    lost |= in[i] ^ static_cast<std::int32_t>(out[i]);
  }
  std::memcpy(to, out.data(), sizeof(out));
  return lost;
}

template <typename Stored>
void append_as(
    std::span<const std::int32_t> ids,
    TokenType type,
    std::vector<std::byte>& out) {
  constexpr std::size_t at_once = 16;
  const std::size_t begin = out.size();
  out.resize(begin + ids.size() * sizeof(Stored));
  std::byte* const to = out.data() + begin;
  std::int32_t lost = 0;
  std::size_t i = 0;
  for (; i + at_once <= ids.size(); i += at_once) {
    lost |= store<Stored, at_once>(&ids[i], to + i * sizeof(Stored));
  }
  for (; i < ids.size(); ++i) {
    lost |= store<Stored, 1>(&ids[i], to + i * sizeof(Stored));
  }
  if (lost != 0) {
    const auto id = std::find_if_not(ids.begin(), ids.end(), [](auto one) {
      return std::in_range<Stored>(one);
    });
    throw DataError(
        {.what = fmt::format("the id {} does not fit {}", *id, name_of(type)),
         .remedy = "does the vocabulary belong to these texts?"});
  }
}

} // namespace

void append_ids(
    TokenType type,
    std::span<const std::int32_t> ids,
    std::vector<std::byte>& out) {
  switch (type) {
    case TokenType::uint8:
      return append_as<std::uint8_t>(ids, type, out);
    case TokenType::int8:
      return append_as<std::int8_t>(ids, type, out);
    case TokenType::int16:
      return append_as<std::int16_t>(ids, type, out);
    case TokenType::int32:
      return append_as<std::int32_t>(ids, type, out);
    case TokenType::int64:
      return append_as<std::int64_t>(ids, type, out);
    case TokenType::uint16:
      return append_as<std::uint16_t>(ids, type, out);
    case TokenType::float32:
    case TokenType::float64:
      break;
  }
  throw InternalError(
      {.what = fmt::format("token ids are not written as {}", name_of(type))});
}

std::int32_t sequence_length(std::uint64_t tokens) {
  if (!std::in_range<std::int32_t>(tokens)) {
    throw DataError(
        {.what = fmt::format(
             "a sequence of {} tokens is too long for the format",
             tokens),
         .remedy = "split the document; fewer than 2^31 tokens are possible"});
  }
  return static_cast<std::int32_t>(tokens);
}

void SequenceBlock::add_sequence(
    TokenType type,
    std::span<const std::int32_t> ids) {
  append_ids(type, ids, tokens);
  lengths.push_back(sequence_length(ids.size()));
}

void SequenceBlock::end_document() {
  document_ends.push_back(static_cast<std::int64_t>(lengths.size()));
}

void SequenceBlock::clear() {
  tokens.clear();
  lengths.clear();
  document_ends.clear();
}

} // namespace cairn::data
