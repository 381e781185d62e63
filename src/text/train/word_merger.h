#pragma once

#include "text/internal/word_counter.h"
#include "text/train/pair_counts.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace cairn::text {

/// All distinct words as rows of tokens, and their most frequent pair of
/// neighbours. A merged pair never comes back, and a merge never makes a token
/// that is already in a row.
class WordMerger {
 public:
  /// `bytes` holds the tokens of the 256 bytes.
  WordMerger(
      const WordCounter& words,
      const std::array<std::uint32_t, 256>& bytes);

  struct Top {
    TokenPair pair;
    std::uint64_t count = 0;
  };
  /// The most frequent pair; of equally frequent pairs the smallest. Empty when
  /// every word is one token.
  std::optional<Top> top();

  /// Replaces the pair that top() returned by `token` in all words.
  void merge_top(std::uint32_t token);

 private:
  struct Word {
    std::uint64_t begin = 0; ///< index in tokens_
    std::uint32_t size = 0;
  };
  /// A pair to be merged in some words. Its count is checked when it comes to
  /// the front, since counts go down all the time.
  struct Candidate {
    std::int64_t count = 0;
    TokenPair pair;
    std::uint32_t* words = nullptr;
    std::uint32_t words_size = 0;
    std::uint32_t place = 0; ///< index of the pair in counts_
    /// True when `other` goes first.
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : other.pair < pair;
    }
  };
  /// A pair that a merge creates.
  struct Gained {
    TokenPair pair;
    std::int64_t count = 0;
    std::uint32_t words = 0;
    std::uint32_t last_word = 0;
  };
  /// A token beside the merged pair.
  struct Neighbour {
    std::int64_t lost = 0;    ///< times that it loses its old neighbour
    std::uint32_t gained = 0; ///< index in gained_ + 1
    bool seen = false;
  };
  struct Side {
    std::vector<Neighbour> of; ///< by token
    std::vector<std::uint32_t> seen;
    Neighbour& at(std::uint32_t token) {
      if (!of[token].seen) {
        of[token].seen = true;
        seen.push_back(token);
      }
      return of[token];
    }
  };
  struct Occurrence {
    std::uint32_t gained;
    std::uint32_t word;
  };

  void count_first_pairs();
  void merge_in(std::uint32_t word, TokenPair pair, std::uint32_t token);
  void gain(Neighbour& neighbour, TokenPair pair, std::uint32_t word);
  void update_counts(TokenPair merged);
  void add_candidates();
  std::uint32_t* room_for(std::size_t words);

  std::vector<std::uint32_t> tokens_;
  std::vector<Word> words_;
  std::vector<std::int64_t> word_counts_;

  PairCounts counts_;
  std::vector<Candidate> candidates_; ///< a heap
  /// Memory for the lists of words that candidates point to.
  std::vector<std::unique_ptr<std::uint32_t[]>> lists_;
  std::uint32_t* list_end_ = nullptr;
  std::size_t list_room_ = 0;

  // State of the current merge; members to keep their memory.
  Side left_;
  Side right_;
  std::vector<Gained> gained_;
  std::vector<Occurrence> occurrences_;
};

} // namespace cairn::text
