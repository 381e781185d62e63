#include "text/schemes/wordpiece/pair_encoding.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::text {
namespace {

constexpr std::size_t special_count = 3; // [CLS], [SEP] and [SEP]

/// Hugging Face's "longest_first": cuts only the longer text if the shorter one
/// then fits beside it, else cuts both to half of the room.
void shorten(
    std::span<const TokenId>& a,
    std::span<const TokenId>& b,
    std::size_t room) {
  if (a.size() + b.size() <= room) {
    return;
  }
  const bool a_longer = a.size() > b.size();
  std::span<const TokenId>& shorter = a_longer ? b : a;
  std::span<const TokenId>& longer = a_longer ? a : b;
  std::size_t few = shorter.size();
  std::size_t many =
      few > room ? few : std::max(few, room - std::min(room, few));
  if (few + many > room) {
    few = room / 2;
    many = few + room % 2;
  }
  shorter = shorter.first(std::min(few, shorter.size()));
  longer = longer.first(std::min(many, longer.size()));
}

} // namespace

PairEncoding encode_pair(
    const Tokenizer& tokenizer,
    std::span<const TokenId> a,
    std::span<const TokenId> b,
    const PairOptions& options) {
  const SpecialIds& special = tokenizer.special();
  if (!special.classify || !special.separator ||
      (options.pad && !special.pad)) {
    throw ConfigError(
        {.what = "this tokenizer cannot encode pairs",
         .remedy = "use one with [CLS], [SEP] and [PAD]"});
  }
  if (options.max_length && *options.max_length < special_count) {
    throw ConfigError(
        {.what = "no room for [CLS] and two [SEP]",
         .values = fmt::format("max_length {}", *options.max_length)});
  }
  if (options.max_length) {
    shorten(a, b, *options.max_length - special_count);
  }
  PairEncoding pair;
  pair.ids.push_back(*special.classify);
  pair.ids.insert(pair.ids.end(), a.begin(), a.end());
  pair.ids.push_back(*special.separator);
  pair.token_types.assign(pair.ids.size(), 0);
  pair.ids.insert(pair.ids.end(), b.begin(), b.end());
  pair.ids.push_back(*special.separator);
  pair.token_types.resize(pair.ids.size(), 1);
  pair.attention_mask.assign(pair.ids.size(), 1);
  if (options.pad && options.max_length) {
    pair.ids.resize(*options.max_length, *special.pad);
    pair.token_types.resize(*options.max_length, 0);
    pair.attention_mask.resize(*options.max_length, 0);
  }
  return pair;
}

} // namespace cairn::text
