#include "serve/shown_text.h"

#include "base/internal/utf8.h"

#include <algorithm>
#include <utility>

namespace cairn::serve {
namespace {

/// Some tokenizers write this for a character whose last bytes are missing.
constexpr std::string_view replacement = "\xef\xbf\xbd";

/// The end of the text before a last character that may still change.
std::size_t settled_end(std::string_view text) {
  while (text.ends_with(replacement)) {
    text.remove_suffix(replacement.size());
  }
  return unfinished_utf8(text);
}

/// Length of the longest end of `text` that `stop` begins with.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t n = std::min(text.size(), stop.size()); n > 0; --n) {
    if (text.ends_with(stop.substr(0, n))) {
      return n;
    }
  }
  return 0;
}

} // namespace

ShownText::ShownText(
    const text::Tokenizer& tokenizer,
    std::vector<std::int64_t> prompt,
    std::vector<std::string> stops)
    : tokenizer_(tokenizer),
      tokens_(prompt.begin(), prompt.end()),
      prompt_text_(tokenizer.decode(tokens_)),
      prompt_size_(prompt.size()),
      stops_(std::move(stops)) {
  std::erase(stops_, std::string());
}

/// Decoded behind the prompt, because some tokenizers write a token differently
/// where a text begins with it.
std::string ShownText::decoded() const {
  std::string all = tokenizer_.decode(tokens_);
  if (all.starts_with(prompt_text_)) {
    return all.substr(prompt_text_.size());
  }
  const std::span<const text::TokenId> own(tokens_);
  return tokenizer_.decode(own.subspan(prompt_size_));
}

std::string ShownText::add(std::int64_t token) {
  if (stopped_) {
    return {};
  }
  tokens_.push_back(static_cast<text::TokenId>(token));
  text_ = decoded();
  const std::size_t from = std::min(shown_.size(), text_.size());
  std::size_t end = text_.npos;
  for (const std::string& stop : stops_) {
    end = std::min(end, text_.find(stop, from));
  }
  if (end != text_.npos) {
    stopped_ = true;
    return show_up_to(end);
  }
  end = settled_end(text_);
  std::size_t held = 0;
  for (const std::string& stop : stops_) {
    held =
        std::max(held, overlap(std::string_view(text_).substr(0, end), stop));
  }
  return show_up_to(end - held);
}

std::string ShownText::finish() {
  return stopped_ ? std::string() : show_up_to(text_.size());
}

std::string ShownText::show_up_to(std::size_t end) {
  if (end <= shown_.size()) {
    return {};
  }
  const std::string more = text_.substr(shown_.size(), end - shown_.size());
  shown_ += more;
  return well_formed_utf8(more);
}

std::string ShownText::piece(
    const text::Tokenizer& tokenizer,
    std::optional<std::int64_t> before,
    std::int64_t token) {
  const auto decoded = [&](std::vector<text::TokenId> ids) {
    return tokenizer.decode(ids);
  };
  const auto id = static_cast<text::TokenId>(token);
  if (before) {
    const auto first = static_cast<text::TokenId>(*before);
    const std::string head = decoded({first});
    const std::string both = decoded({first, id});
    if (both.starts_with(head)) {
      return both.substr(head.size());
    }
  }
  return decoded({id});
}

} // namespace cairn::serve
