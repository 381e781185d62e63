#include "corpus/clean/token_counter.h"

#include "corpus/clean/unicode.h"

#include <unicode/uchar.h>

#include <utility>

namespace cairn::corpus {
namespace {

enum class Kind { space, letter, digit, sign };

Kind kind_of(char32_t code) {
  const auto c = static_cast<UChar32>(code);
  return ::u_isUWhiteSpace(c) ? Kind::space
      : ::u_isalpha(c)        ? Kind::letter
      : ::u_isdigit(c)        ? Kind::digit
                              : Kind::sign;
}

std::size_t count_runs(std::string_view text) {
  std::size_t runs = 0;
  Kind last = Kind::space;
  std::size_t at = 0;
  while (at < text.size()) {
    const Kind kind = kind_of(next_code_point(text, at));
    runs += kind != last && kind != Kind::space ? 1 : 0;
    last = kind;
  }
  return runs;
}

bool has_characters(std::size_t wanted, std::string_view text) {
  if (text.size() < wanted) {
    return false;
  }
  std::size_t at = 0;
  while (at < text.size() && wanted > 0) {
    next_code_point(text, at);
    --wanted;
  }
  return wanted == 0;
}

} // namespace

TokenCounter::TokenCounter(std::shared_ptr<const text::Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {}

bool TokenCounter::has_at_least(std::size_t tokens, std::string_view text)
    const {
  constexpr std::size_t characters_per_token = 8;
  // A division, since the product could overflow.
  const bool surely = tokens <= text.size() / characters_per_token &&
      has_characters(tokens * characters_per_token, text);
  return surely || count(text) >= tokens;
}

std::size_t TokenCounter::count(std::string_view text) const {
  if (tokenizer_ == nullptr) {
    return count_runs(text);
  }
  std::unique_ptr<text::Encoder> encoder;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      encoder = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (encoder == nullptr) {
    encoder = tokenizer_->make_encoder();
  }
  std::vector<text::TokenId> ids;
  encoder->encode(text, ids);
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(encoder));
  return ids.size();
}

} // namespace cairn::corpus
