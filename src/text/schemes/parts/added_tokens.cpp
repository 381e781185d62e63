#include "text/schemes/parts/added_tokens.h"

#include "base/internal/utf8.h"

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

namespace cairn::text {
namespace {

Utf8Char after(std::string_view text, std::size_t at) {
  return decode_utf8(text.data() + at, text.data() + text.size());
}

/// The character that ends at `at`; `at` must not be 0.
Utf8Char before(std::string_view text, std::size_t at) {
  return last_utf8(text.substr(0, at));
}

bool is_space(Utf8Char c) {
  return c.valid() && u_isUWhiteSpace(static_cast<UChar32>(c.code_point)) != 0;
}

bool is_word(Utf8Char c) {
  if (!c.valid()) {
    return false;
  }
  const auto code = static_cast<UChar32>(c.code_point);
  return u_isUAlphabetic(code) != 0 ||
      (U_GET_GC_MASK(code) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

} // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) {
    return token.content.empty() || !token.in_text;
  });
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    if (!by_content_.emplace(content, i).second) {
      continue;
    }
    const auto first = static_cast<unsigned char>(content.front());
    starts_[first] = true;
    lengths_[first].push_back(content.size());
  }
  for (auto& lengths : lengths_) {
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  }
  if (std::count(starts_.begin(), starts_.end(), true) == 1) {
    only_start_ = static_cast<int>(
        std::find(starts_.begin(), starts_.end(), true) - starts_.begin());
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text, std::size_t at)
    const {
  for (const std::size_t length :
       lengths_[static_cast<unsigned char>(text[at])]) {
    if (length > text.size() - at) {
      continue;
    }
    const auto found = by_content_.find(text.substr(at, length));
    if (found == by_content_.end()) {
      continue;
    }
    const AddedToken& token = tokens_[found->second];
    const bool inside_word = token.single_word &&
        ((at > 0 && is_word(before(text, at))) ||
         (at + length < text.size() && is_word(after(text, at + length))));
    // Like Hugging Face's matcher: when the longest token is refused, a shorter
    // token at the same place is not tried.
    return inside_word ? nullptr : &token;
  }
  return nullptr;
}

AddedTokens::Match AddedTokens::find(std::string_view text, std::size_t from)
    const {
  const Match none{.begin = text.size(), .end = text.size()};
  if (tokens_.empty()) {
    return none;
  }
  for (std::size_t at = from; at < text.size(); ++at) {
    if (only_start_ >= 0) {
      const void* found =
          std::memchr(text.data() + at, only_start_, text.size() - at);
      if (found == nullptr) {
        return none;
      }
      at = static_cast<std::size_t>(
          static_cast<const char*>(found) - text.data());
    } else if (!starts_[static_cast<unsigned char>(text[at])]) {
      continue;
    }
    const AddedToken* token = longest_at(text, at);
    if (token == nullptr) {
      continue;
    }
    Match match{
        .begin = at,
        .end = at + token->content.size(),
        .id = token->id};
    while (token->strip_left && match.begin > from) {
      const Utf8Char c = before(text, match.begin);
      if (!is_space(c) || match.begin - from < c.length) {
        break;
      }
      match.begin -= c.length;
    }
    while (token->strip_right && match.end < text.size()) {
      const Utf8Char c = after(text, match.end);
      if (!is_space(c)) {
        break;
      }
      match.end += c.length;
    }
    return match;
  }
  return none;
}

void add_sentinels(
    int count,
    bool in_text,
    Vocabulary& vocabulary,
    std::vector<AddedToken>& added,
    SpecialIds& special) {
  for (int i = 0; i < count; ++i) {
    const std::string content = fmt::format("<extra_id_{}>", i);
    const TokenId id = vocabulary.add(content);
    special.sentinels.push_back(id);
    added.push_back({.content = content, .id = id, .in_text = in_text});
  }
}

} // namespace cairn::text
