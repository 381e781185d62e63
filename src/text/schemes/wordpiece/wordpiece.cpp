#include "text/schemes/wordpiece/wordpiece.h"

#include "base/internal/utf8.h"
#include "text/internal/decode_text.h"
#include "text/schemes/parts/scheme_tokenizer.h"
#include "text/schemes/parts/word_cache.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace cairn::text {
namespace {

bool is_punctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') ||
        (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  }
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_P_MASK) != 0;
}

bool is_space(char32_t c) {
  return c < 0x80 ? c == ' ' || (c >= '\t' && c <= '\r')
                  : u_isUWhiteSpace(static_cast<UChar32>(c)) != 0;
}

class WordPieceTokenizer final : public SchemeTokenizer<WordPiece> {
 public:
  explicit WordPieceTokenizer(WordPiece scheme);

  std::unique_ptr<Encoder> make_encoder() const override;
  std::string decode(std::span<const TokenId> ids) const override;

  /// Appends the ids of one word.
  void cut(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  friend class WordPieceEncoder;

  AddedTokens added_;
  std::optional<BertNormalizer> normalizer_;
  Vocabulary continuing_; ///< pieces inside a word, without their prefix
  std::unordered_set<std::string_view> never_split_;
};

class WordPieceEncoder final : public Encoder {
 public:
  explicit WordPieceEncoder(const WordPieceTokenizer& tokenizer)
      : tokenizer_(tokenizer) {}

  void encode(
      std::string_view text,
      std::vector<TokenId>& ids,
      const Portions& portions) override {
    portions_ = &portions;
    const WordPiece& scheme = tokenizer_.scheme_;
    ids.insert(ids.end(), scheme.before.begin(), scheme.before.end());
    tokenizer_.added_.split(
        text,
        [&](std::string_view plain) {
          if (tokenizer_.normalizer_) {
            normalized_words(plain, ids);
          } else {
            words(plain, ids);
          }
        },
        [&](TokenId id) { ids.push_back(id); });
    ids.insert(ids.end(), scheme.after.begin(), scheme.after.end());
  }

 private:
  /// Normalizes a portion of text at a time and takes the words up to its last
  /// space; the rest waits for the next portion.
  void normalized_words(std::string_view text, std::vector<TokenId>& ids) {
    normal_.clear();
    while (!text.empty()) {
      const std::size_t old = normal_.size();
      const std::size_t end =
          character_start(text, std::max<std::size_t>(portions_->size, 4));
      tokenizer_.normalizer_->normalize(text.substr(0, end), normal_);
      text.remove_prefix(end);
      const auto space =
          std::string_view(normal_).substr(old).find_last_of(' ');
      if (!text.empty() && space != std::string_view::npos) {
        words(std::string_view(normal_).substr(0, old + space), ids);
        normal_.erase(0, old + space);
      }
    }
    words(normal_, ids);
    if (normal_.capacity() > kept_text) {
      normal_ = {};
    }
  }

  void words(std::string_view text, std::vector<TokenId>& ids) {
    const char* const end = text.data() + text.size();
    const char* start = text.data(); // of the current word
    for (const char* at = start; at != end;) {
      const Utf8Char c = decode_utf8(at, end);
      if (is_space(c.code_point)) {
        between_spaces({start, static_cast<std::size_t>(at - start)}, end, ids);
        start = at + c.length;
      }
      at += c.length;
    }
    between_spaces({start, static_cast<std::size_t>(end - start)}, end, ids);
  }

  void between_spaces(
      std::string_view text,
      const char* text_end,
      std::vector<TokenId>& ids) {
    if (!tokenizer_.never_split_.empty() &&
        tokenizer_.never_split_.contains(text)) {
      word(text, text_end, ids);
      return;
    }
    const char* const end = text.data() + text.size();
    const char* start = text.data();
    for (const char* at = start; at != end;) {
      const Utf8Char c = decode_utf8(at, end);
      if (c.valid() && is_punctuation(c.code_point)) {
        word({start, static_cast<std::size_t>(at - start)}, text_end, ids);
        word({at, c.length}, text_end, ids);
        start = at + c.length;
      }
      at += c.length;
    }
    word({start, static_cast<std::size_t>(end - start)}, text_end, ids);
  }

  void word(
      std::string_view word,
      const char* text_end,
      std::vector<TokenId>& ids) {
    if (word.empty()) {
      return;
    }
    portions_->offer(ids);
    if (word.size() > WordCache::short_word) {
      auto known = cache_.find_long(word);
      if (known.empty()) {
        tokenizer_.cut(word, pieces_);
        cache_.insert_long(word, pieces_);
        known = pieces_;
      }
      ids.insert(ids.end(), known.begin(), known.end());
      return;
    }
    const auto key = WordCache::short_key(word, text_end);
    if (const auto* known = cache_.find(key)) {
      const auto pieces = cache_.ids(*known);
      ids.insert(ids.end(), pieces.begin(), pieces.end());
      return;
    }
    tokenizer_.cut(word, pieces_);
    cache_.insert(key, pieces_);
    ids.insert(ids.end(), pieces_.begin(), pieces_.end());
  }

  static constexpr std::size_t kept_text = std::size_t{1} << 20;

  const WordPieceTokenizer& tokenizer_;
  const Portions* portions_ = nullptr;
  WordCache cache_;
  std::string normal_;
  std::vector<TokenId> pieces_;
};

WordPieceTokenizer::WordPieceTokenizer(WordPiece scheme)
    : SchemeTokenizer(std::move(scheme)), added_(scheme_.added) {
  if (scheme_.normalizer) {
    normalizer_.emplace(*scheme_.normalizer);
  }
  const std::string& prefix = scheme_.continuing_prefix;
  std::vector<Vocabulary::Entry> continuing;
  for (std::size_t i = 0; i < vocab_size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const auto token = scheme_.vocabulary.token(id);
    if (token.size() > prefix.size() && token.starts_with(prefix)) {
      continuing.push_back({token.substr(prefix.size()), id});
    }
  }
  continuing_ = Vocabulary(continuing, vocab_size(), "");
  never_split_.insert(scheme_.never_split.begin(), scheme_.never_split.end());
}

void WordPieceTokenizer::cut(std::string_view word, std::vector<TokenId>& ids)
    const {
  ids.clear();
  if (never_split_.contains(word)) {
    ids.push_back(find(word).value_or(scheme_.unknown));
    return;
  }
  const auto is_start = [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  };
  const auto length = static_cast<std::size_t>(
      std::count_if(word.begin(), word.end(), is_start));
  if (length > scheme_.max_word_length) {
    ids.push_back(scheme_.unknown);
    return;
  }
  for (std::size_t start = 0; start < word.size();) {
    const Vocabulary& vocabulary =
        start == 0 ? scheme_.vocabulary : continuing_;
    std::size_t end = std::min(word.size(), start + vocabulary.longest());
    std::optional<TokenId> found;
    for (; end > start; --end) {
      if (end < word.size() && !is_start(word[end])) {
        continue;
      }
      found = vocabulary.find(word.substr(start, end - start));
      if (found) {
        break;
      }
    }
    if (!found) {
      ids.assign(1, scheme_.unknown);
      return;
    }
    ids.push_back(*found);
    start = end;
  }
}

std::unique_ptr<Encoder> WordPieceTokenizer::make_encoder() const {
  return std::make_unique<WordPieceEncoder>(*this);
}

std::string WordPieceTokenizer::decode(std::span<const TokenId> ids) const {
  const std::string& prefix = scheme_.continuing_prefix;
  std::string text;
  std::string part;
  bool first = true;
  for (const TokenId id : ids) {
    const std::string_view token = scheme_.vocabulary.token(id);
    if (first) {
      part = token;
      first = false;
    } else if (token.starts_with(prefix)) {
      part = token.substr(prefix.size());
    } else {
      part = " ";
      part += token;
    }
    // Cleans up each part by itself, as Hugging Face's decoder does.
    text += scheme_.clean_up ? clean_up_spaces(part) : part;
  }
  return text;
}

} // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(WordPiece scheme) {
  return std::make_shared<WordPieceTokenizer>(std::move(scheme));
}

} // namespace cairn::text
