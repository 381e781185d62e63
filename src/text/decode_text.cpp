#include "text/internal/decode_text.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace cairn::text {

std::vector<TokenId> without_special(
    const Tokenizer& tokenizer,
    std::span<const TokenId> ids) {
  std::vector<TokenId> rest;
  std::copy_if(
      ids.begin(),
      ids.end(),
      std::back_inserter(rest),
      [&](TokenId id) { return !tokenizer.is_special(id); });
  return rest;
}

std::string clean_up_spaces(std::string_view text) {
  using Rule = std::pair<std::string_view, std::string_view>;
  // The order is that of Hugging Face's libraries.
  static constexpr std::array rules{
      Rule{" .", "."},
      Rule{" ?", "?"},
      Rule{" !", "!"},
      Rule{" ,", ","},
      Rule{" ' ", "'"},
      Rule{" n't", "n't"},
      Rule{" 'm", "'m"},
      Rule{" do not", " don't"},
      Rule{" 's", "'s"},
      Rule{" 've", "'ve"},
      Rule{" 're", "'re"}};
  std::string result(text);
  for (const auto& [from, to] : rules) {
    std::size_t at = result.find(from);
    if (at == std::string::npos) {
      continue;
    }
    std::string next;
    std::size_t done = 0;
    for (; at != std::string::npos; at = result.find(from, done)) {
      next.append(result, done, at - done);
      next += to;
      done = at + from.size();
    }
    next.append(result, done);
    result = std::move(next);
  }
  return result;
}

} // namespace cairn::text
