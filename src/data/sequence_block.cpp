#include <cairn/base/error.h>
#include <cairn/data/sequence_block.h>

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace cairn::data {
namespace {

template <typename Stored>
void append_as(
    std::span<const std::int32_t> ids,
    TokenType type,
    std::vector<std::byte>& out) {
  const std::size_t begin = out.size();
  out.resize(begin + ids.size() * sizeof(Stored));
  std::byte* to = out.data() + begin;
  bool fits = true;
  for (const std::int32_t id : ids) {
    const auto stored = static_cast<Stored>(id);
    fits = fits && std::in_range<Stored>(id);
    std::memcpy(to, &stored, sizeof(Stored));
    to += sizeof(Stored);
  }
  if (!fits) {
    for (const std::int32_t id : ids) {
      if (!std::in_range<Stored>(id)) {
        throw DataError(
            {.what =
                 fmt::format("the id {} does not fit {}", id, name_of(type)),
             .remedy = "does the vocabulary belong to these texts?"});
      }
    }
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
