#include "text/internal/bpe_trainer.h"

#include "base/internal/utf8.h"
#include "text/schemes/bpe/byte_alphabet.h"
#include "text/train/word_merger.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace cairn::text {
namespace {

/// Tokens in the order of their ids, each once.
class Tokens {
 public:
  std::uint32_t add(std::string token) {
    const auto next = static_cast<std::uint32_t>(list_.size());
    const auto [found, is_new] = ids_.try_emplace(token, next);
    if (is_new) {
      list_.push_back(std::move(token));
    }
    return found->second;
  }
  std::size_t size() const { return list_.size(); }
  const std::string& operator[](std::uint32_t id) const { return list_[id]; }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<std::string> list_;
};

bool is_utf8(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const Utf8Char c = decode_utf8(at, end);
    if (!c.valid()) {
      return false;
    }
    at += c.length;
  }
  return true;
}

struct Start {
  Tokens tokens;
  std::size_t special_tokens = 0;
  std::array<std::uint32_t, 256> bytes{}; ///< token ids of the bytes
};

/// The initial tokens: the special tokens, then the bytes in the order of the
/// characters that stand for them.
Start start_of(const BpeTrainerOptions& options) {
  Start start;
  for (const std::string& token : options.special_tokens) {
    if (token.empty() || !is_utf8(token)) {
      throw ConfigError(
          {.what = token.empty() ? "a special token is empty"
                                 : "a special token is no UTF-8",
           .where = "--special-tokens"});
    }
    start.tokens.add(token);
  }
  start.special_tokens = start.tokens.size();
  const ByteAlphabet alphabet;
  std::array<unsigned char, 256> order{};
  std::iota(order.begin(), order.end(), static_cast<unsigned char>(0));
  std::sort(order.begin(), order.end(), [&](unsigned char a, unsigned char b) {
    return alphabet.character(a) < alphabet.character(b);
  });
  for (const unsigned char byte : order) {
    std::string token;
    append_utf8(token, alphabet.character(byte));
    start.bytes[byte] = start.tokens.add(std::move(token));
  }
  if (options.vocab_size < start.tokens.size()) {
    throw ConfigError(
        {.what = fmt::format(
             "{} entries hold less than the bytes and the special tokens",
             options.vocab_size),
         .where = "--vocab-size",
         .remedy = fmt::format("take at least {}", start.tokens.size())});
  }
  if (options.vocab_size > std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError(
        {.what = fmt::format("{} entries are too many", options.vocab_size),
         .where = "--vocab-size"});
  }
  return start;
}

} // namespace

std::size_t first_merged_id(const BpeTrainerOptions& options) {
  return start_of(options).tokens.size();
}

TrainedBpe train_bpe(
    const WordCounter& words,
    const BpeTrainerOptions& options,
    const std::function<void()>& merged) {
  auto [tokens, special_tokens, bytes] = start_of(options);
  WordMerger merger(words, bytes);
  TrainedBpe trained{.special_tokens = special_tokens};
  while (tokens.size() < options.vocab_size) {
    const auto top = merger.top();
    if (!top ||
        top->count < std::max<std::uint64_t>(options.min_frequency, 1)) {
      break;
    }
    const auto [left, right] = top->pair;
    // The id is new unless the string equals a special token: a string that was
    // merged before is always put together in the same way.
    merger.merge_top(tokens.add(tokens[left] + tokens[right]));
    trained.merges.emplace_back(left, right);
    if (merged) {
      merged();
    }
  }
  trained.tokens = tokens.take();
  return trained;
}

} // namespace cairn::text
