#include "text/schemes/bpe/byte_level_bpe.h"

#include "text/schemes/bpe/bpe_model.h"
#include "text/schemes/bpe/byte_alphabet.h"
#include "text/schemes/bpe/gpt2_splitter.h"
#include "text/schemes/parts/scheme_tokenizer.h"
#include "text/schemes/parts/word_cache.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace cairn::text {
namespace {

/// The added tokens that are searched for before normalization.
AddedTokens before_normalizing(const ByteLevelBpe& scheme) {
  std::vector<AddedToken> tokens = scheme.added;
  if (!scheme.normalizer.empty()) {
    std::erase_if(tokens, [](const AddedToken& t) { return t.normalized; });
  }
  return AddedTokens(std::move(tokens));
}

/// The added tokens that are searched for after normalization. They are
/// normalized too.
AddedTokens after_normalizing(const ByteLevelBpe& scheme) {
  std::vector<AddedToken> tokens;
  for (AddedToken token : scheme.added) {
    if (token.normalized && !scheme.normalizer.empty()) {
      std::string normal;
      token.content = normalize(token.content, scheme.normalizer, normal);
      tokens.push_back(std::move(token));
    }
  }
  return AddedTokens(std::move(tokens));
}

class ByteLevelBpeTokenizer final : public SchemeTokenizer<ByteLevelBpe> {
 public:
  explicit ByteLevelBpeTokenizer(ByteLevelBpe scheme);

  std::unique_ptr<Encoder> make_encoder() const override;
  std::string decode(std::span<const TokenId> ids) const override;

 private:
  friend class ByteLevelBpeEncoder;

  std::array<TokenId, 256> byte_ids() const;

  ByteAlphabet alphabet_;
  AddedTokens added_;
  AddedTokens added_normalized_;
  Gpt2Splitter gpt2_;
  BpeModel model_;
  std::unordered_map<TokenId, std::string> added_texts_; ///< for decoding
};

class ByteLevelBpeEncoder final : public Encoder {
 public:
  explicit ByteLevelBpeEncoder(const ByteLevelBpeTokenizer& tokenizer)
      : tokenizer_(tokenizer) {}

  void encode(
      std::string_view text,
      std::vector<TokenId>& ids,
      const Portions& portions) override {
    const ByteLevelBpe& scheme = tokenizer_.scheme_;
    out_ = &ids;
    portions_ = &portions;
    pending_ = 0;
    ids.insert(ids.end(), scheme.before.begin(), scheme.before.end());
    const auto token = [this](TokenId id) { put(id); };
    tokenizer_.added_.split(
        text,
        [&](std::string_view plain) {
          if (scheme.normalizer.empty()) {
            segment(plain);
            return;
          }
          std::string normal;
          tokenizer_.added_normalized_.split(
              normalize(plain, scheme.normalizer, normal),
              [this](std::string_view part) { segment(part); },
              token);
        },
        token);
    flush();
    ids.insert(ids.end(), scheme.after.begin(), scheme.after.end());
  }

 private:
  void segment(std::string_view text) {
    if (tokenizer_.scheme_.add_prefix_space && !text.starts_with(' ')) {
      prefixed_ = ' ';
      prefixed_ += text;
      split(prefixed_, 0);
      if (prefixed_.capacity() > kept_text) {
        prefixed_ = {};
      }
    } else {
      split(text, 0);
    }
  }

  void split(std::string_view text, std::size_t level) {
    const auto& splits = tokenizer_.scheme_.splits;
    if (level < splits.size()) {
      splits[level].split(text, regex_, [&](std::string_view piece) {
        split(piece, level + 1);
      });
    } else if (tokenizer_.scheme_.gpt2_split) {
      gpt2_words(text.data(), text.data() + text.size());
    } else {
      word(text, text.data() + text.size());
    }
  }

  void gpt2_words(const char* at, const char* end) {
    while (at != end) {
      const char* next = tokenizer_.gpt2_.next(at, end);
      word({at, static_cast<std::size_t>(next - at)}, end);
      at = next;
    }
  }

  void word(std::string_view word, const char* text_end) {
    if (word.size() > WordCache::short_word) {
      long_word(word);
      return;
    }
    const auto key = WordCache::short_key(word, text_end);
    const auto* known = cache_.find(key);
    if (known == nullptr) {
      const auto ids = merged(word);
      put(ids);
      cache_.insert(key, ids);
    } else if (known->count <= WordCache::ShortEntry::inline_ids) {
      if (pending_ + known->ids.size() > buffer_.size()) {
        flush();
      }
      // Copies all `inline_ids`, so that no branch depends on the count.
      std::copy(
          known->ids.begin(),
          known->ids.end(),
          buffer_.begin() + pending_);
      pending_ += known->count;
    } else {
      put(cache_.ids(*known));
    }
  }

  void long_word(std::string_view word) {
    if (const auto known = cache_.find_long(word); !known.empty()) {
      put(known);
      return;
    }
    std::string_view rest = word;
    const auto ids = merged(rest);
    put(ids);
    if (rest.empty()) {
      cache_.insert_long(word, ids);
    }
    while (!rest.empty()) {
      put(tokenizer_.model_.encode_front(rest, scratch_));
    }
    if (scratch_.symbols.capacity() > kept_ids) {
      scratch_ = {};
    }
  }

  /// Encodes the word, or the front of a very long word. Removes the encoded
  /// bytes from `word` and returns their ids.
  std::span<const TokenId> merged(std::string_view& word) {
    const Vocabulary& vocabulary = tokenizer_.scheme_.vocabulary;
    if (tokenizer_.scheme_.ignore_merges &&
        word.size() <= vocabulary.longest()) {
      const auto whole = vocabulary.find(tokenizer_.alphabet_.write(word));
      if (whole) {
        word = {};
        scratch_.symbols.assign(1, *whole);
        return scratch_.symbols;
      }
    }
    return tokenizer_.model_.encode_front(word, scratch_);
  }

  void put(TokenId id) { put(std::span(&id, 1)); }

  void put(std::span<const TokenId> ids) {
    if (pending_ + ids.size() > buffer_.size()) {
      flush();
      if (ids.size() > buffer_.size()) {
        out_->insert(out_->end(), ids.begin(), ids.end());
        portions_->offer(*out_);
        return;
      }
    }
    std::copy(ids.begin(), ids.end(), buffer_.begin() + pending_);
    pending_ += ids.size();
  }

  void flush() {
    out_->insert(out_->end(), buffer_.begin(), buffer_.begin() + pending_);
    pending_ = 0;
    portions_->offer(*out_);
  }

  static constexpr std::size_t kept_ids = std::size_t{1} << 20;
  static constexpr std::size_t kept_text = std::size_t{1} << 20;

  const ByteLevelBpeTokenizer& tokenizer_;
  WordCache cache_;
  BpeScratch scratch_;
  RegexScratch regex_;
  std::string prefixed_;
  std::vector<TokenId>* out_ = nullptr;
  const Portions* portions_ = nullptr;
  /// Ids that are not yet in the vector: appending them one by one is slower.
  std::array<TokenId, 2048> buffer_;
  std::size_t pending_ = 0;
};

ByteLevelBpeTokenizer::ByteLevelBpeTokenizer(ByteLevelBpe scheme)
    : SchemeTokenizer(std::move(scheme)),
      added_(before_normalizing(scheme_)),
      added_normalized_(after_normalizing(scheme_)),
      model_(byte_ids(), scheme_.merges) {
  scheme_.merges = {}; // the model has them
  for (const AddedToken& token : scheme_.added) {
    std::string normal;
    added_texts_[token.id] = token.normalized
        ? normalize(token.content, scheme_.normalizer, normal)
        : std::string_view(token.content);
  }
}

std::array<TokenId, 256> ByteLevelBpeTokenizer::byte_ids() const {
  std::array<TokenId, 256> ids{};
  for (std::size_t byte = 0; byte < ids.size(); ++byte) {
    const char c = static_cast<char>(byte);
    const auto id = scheme_.vocabulary.find(alphabet_.write({&c, 1}));
    ids[byte] = id ? *id : scheme_.unknown_byte.value_or(-1);
  }
  return ids;
}

std::unique_ptr<Encoder> ByteLevelBpeTokenizer::make_encoder() const {
  return std::make_unique<ByteLevelBpeEncoder>(*this);
}

std::string ByteLevelBpeTokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) {
    const auto token = scheme_.vocabulary.token(id);
    if (const auto added = added_texts_.find(id); added != added_texts_.end()) {
      text += added->second;
    } else if (!alphabet_.read(token, text)) {
      text += token;
    }
  }
  return text;
}

} // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(ByteLevelBpe scheme) {
  return std::make_shared<ByteLevelBpeTokenizer>(std::move(scheme));
}

} // namespace cairn::text
