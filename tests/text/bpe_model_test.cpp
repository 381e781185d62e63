#include "text/schemes/bpe/bpe_model.h"
#include "text/schemes/parts/word_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace cairn::text::bpe_model_test {
namespace {

/// Merges by the rules as they are written down, one pair at a time.
std::vector<TokenId> merge_plainly(
    std::vector<TokenId> symbols,
    const std::vector<MergeTable::Rule>& rules) {
  for (;;) {
    std::size_t best = rules.size();
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (std::size_t rank = 0; rank < best; ++rank) {
        if (rules[rank].left == symbols[i] &&
            rules[rank].right == symbols[i + 1]) {
          best = rank;
          at = i;
        }
      }
    }
    if (best == rules.size()) {
      return symbols;
    }
    symbols[at] = rules[best].merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

std::vector<TokenId> encode(
    const BpeModel& model,
    std::string_view word,
    BpeScratch& scratch) {
  std::vector<TokenId> all;
  while (!word.empty()) {
    const auto ids = model.encode_front(word, scratch);
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
}

TEST(BpeModel, MergesShortAndLongWordsAlike) {
  std::mt19937 random(9);
  for (int round = 0; round < 200; ++round) {
    // Three letters, and rules that may use the result of a later rule.
    std::vector<MergeTable::Rule> rules;
    for (TokenId next = 3; next < 20; ++next) {
      const auto any = [&] { return static_cast<TokenId>(random() % 20); };
      rules.push_back({any(), any(), next});
    }
    std::array<TokenId, 256> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<TokenId>(i % 3);
    }
    const BpeModel model(bytes, rules);
    BpeScratch scratch;
    for (const std::size_t size : {1U, 2U, 7U, 63U, 64U, 65U, 66U, 150U}) {
      std::string word;
      for (std::size_t i = 0; i < size; ++i) {
        word += static_cast<char>(random() % 3);
      }
      ASSERT_EQ(
          encode(model, word, scratch),
          merge_plainly({word.begin(), word.end()}, rules));
    }
  }
}

/// Merges by rules in order: rank by rank, each from the left.
std::vector<TokenId> merge_by_ranks(
    std::vector<TokenId> symbols,
    const std::vector<MergeTable::Rule>& rules) {
  for (const auto& [left, right, merged, rank] : rules) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      const bool both = symbols[i] == left && i + 1 < symbols.size() &&
          symbols[i + 1] == right;
      symbols[kept++] = both ? merged : symbols[i];
      i += both;
    }
    symbols.resize(kept);
  }
  return symbols;
}

TEST(BpeModel, MergesWordsOfAnyLengthPartByPart) {
  std::mt19937 random(21);
  for (int round = 0; round < 3; ++round) {
    std::vector<MergeTable::Rule> rules;
    for (TokenId next = 3; next < 300; ++next) {
      const auto any = [&] { return static_cast<TokenId>(random() % next); };
      const MergeTable::Rule rule{any(), any(), next};
      if (std::none_of(rules.begin(), rules.end(), [&](const auto& other) {
            return other.left == rule.left && other.right == rule.right;
          })) {
        rules.push_back(rule);
      } else {
        rules.push_back({next - 1, rule.right, next});
      }
    }
    std::array<TokenId, 256> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<TokenId>(i % 3);
    }
    const BpeModel model(bytes, rules);
    BpeScratch scratch;
    std::string word;
    while (word.size() < 900000) {
      // Runs of one letter and of a pair among the rest.
      const auto length = random() % 100 == 0 ? random() % 200000 : 3;
      const char first = static_cast<char>(random() % 3);
      const char second = static_cast<char>(random() % 3);
      for (std::size_t i = 0; i < length; ++i) {
        word += i % 2 == 0 ? first : second;
      }
    }
    ASSERT_EQ(
        encode(model, word, scratch),
        merge_by_ranks({word.begin(), word.end()}, rules));
  }
}

TEST(WordCache, GivesBackWhatWasPutIn) {
  // The text has more words than the cache, so it forgets some now and then.
  WordCache cache;
  std::map<std::string, std::vector<TokenId>> all;
  std::mt19937 random(4);
  std::size_t hits = 0;
  for (int i = 0; i < 200000; ++i) {
    const std::string word(1 + random() % 40, static_cast<char>(random() % 3));
    std::string text = word + std::to_string(random() % 1000);
    auto& ids = all[text];
    if (ids.empty()) {
      ids.resize(1 + random() % 12);
      for (auto& id : ids) {
        id = static_cast<TokenId>(random() >> 1);
      }
    }
    std::span<const TokenId> found;
    if (text.size() <= WordCache::short_word) {
      const auto key = WordCache::short_key(text, text.data() + text.size());
      if (const auto* entry = cache.find(key)) {
        found = cache.ids(*entry);
      } else {
        cache.insert(key, ids);
      }
    } else {
      found = cache.find_long(text);
      if (found.empty()) {
        cache.insert_long(text, ids);
      }
    }
    if (!found.empty()) {
      ++hits;
      ASSERT_EQ(std::vector<TokenId>(found.begin(), found.end()), ids);
    }
  }
  EXPECT_GT(hits, 20000U);
}

} // namespace
} // namespace cairn::text::bpe_model_test
