#include "text/train/word_merger.h"

#include <algorithm>

namespace cairn::text {

WordMerger::WordMerger(
    const WordCounter& words,
    const std::array<std::uint32_t, 256>& bytes) {
  std::size_t size = 0;
  std::size_t count = 0;
  words.visit([&](std::string_view word, std::uint64_t) {
    if (word.size() > 1) { // one byte makes no pair
      size += word.size();
      ++count;
    }
  });
  tokens_.reserve(size);
  words_.reserve(count);
  word_counts_.reserve(count);
  words.visit([&](std::string_view word, std::uint64_t times) {
    if (word.size() > 1) {
      words_.push_back(
          {tokens_.size(), static_cast<std::uint32_t>(word.size())});
      word_counts_.push_back(static_cast<std::int64_t>(times));
      for (const char c : word) {
        tokens_.push_back(bytes[static_cast<unsigned char>(c)]);
      }
    }
  });
  const std::size_t known = *std::max_element(bytes.begin(), bytes.end()) + 1;
  left_.of.resize(known);
  right_.of.resize(known);
  count_first_pairs();
}

void WordMerger::count_first_pairs() {
  // Uses the same bookkeeping as after a merge, with all pairs new.
  for (std::uint32_t word = 0; word < words_.size(); ++word) {
    const std::uint32_t* const row = tokens_.data() + words_[word].begin;
    for (std::uint32_t i = 0; i + 1 < words_[word].size; ++i) {
      const std::uint32_t place = counts_.find_or_add({row[i], row[i + 1]});
      counts_[place].count += word_counts_[word];
      if (place == gained_.size()) {
        gained_.push_back({.pair = {row[i], row[i + 1]}});
      }
      if (gained_[place].words == 0 || gained_[place].last_word != word) {
        gained_[place].last_word = word;
        ++gained_[place].words;
        occurrences_.push_back({place, word});
      }
    }
  }
  add_candidates();
  occurrences_.shrink_to_fit();
}

std::optional<WordMerger::Top> WordMerger::top() {
  while (!candidates_.empty()) {
    Candidate& front = candidates_.front();
    const std::int64_t count = counts_[front.place].count;
    if (front.count == count) {
      return Top{front.pair, static_cast<std::uint64_t>(count)};
    }
    std::pop_heap(candidates_.begin(), candidates_.end());
    candidates_.back().count = count;
    std::push_heap(candidates_.begin(), candidates_.end());
  }
  return std::nullopt;
}

void WordMerger::merge_top(std::uint32_t token) {
  std::pop_heap(candidates_.begin(), candidates_.end());
  const Candidate top = candidates_.back();
  candidates_.pop_back();
  if (token >= left_.of.size()) {
    left_.of.resize(token + 1);
    right_.of.resize(token + 1);
  }
  for (const std::uint32_t word : std::span(top.words, top.words_size)) {
    merge_in(word, top.pair, token);
  }
  update_counts(top.pair);
  add_candidates();
}

void WordMerger::merge_in(
    std::uint32_t word,
    TokenPair pair,
    std::uint32_t token) {
  std::uint32_t* const row = tokens_.data() + words_[word].begin;
  const std::uint32_t size = words_[word].size;
  const std::int64_t count = word_counts_[word];
  std::uint32_t to = 0;
  for (std::uint32_t from = 0; from < size;) {
    if (row[from] != pair.left || from + 1 == size ||
        row[from + 1] != pair.right) {
      row[to++] = row[from++];
      continue;
    }
    if (to > 0) {
      Neighbour& before = left_.at(row[to - 1]);
      before.lost += count;
      gain(before, {row[to - 1], token}, word);
    }
    row[to++] = token;
    from += 2;
    if (from < size) {
      Neighbour& after = right_.at(row[from]);
      after.lost += count;
      gain(after, {token, row[from]}, word);
    }
  }
  words_[word].size = to;
}

void WordMerger::gain(
    Neighbour& neighbour,
    TokenPair pair,
    std::uint32_t word) {
  if (neighbour.gained == 0) {
    gained_.push_back({.pair = pair});
    neighbour.gained = static_cast<std::uint32_t>(gained_.size());
  }
  Gained& gained = gained_[neighbour.gained - 1];
  gained.count += word_counts_[word];
  if (gained.words == 0 || gained.last_word != word) {
    gained.last_word = word;
    ++gained.words;
    occurrences_.push_back({neighbour.gained - 1, word});
  }
}

void WordMerger::update_counts(TokenPair merged) {
  // The merged pair's own count is left as it was: no list holds it any more.
  for (const std::uint32_t token : left_.seen) {
    const auto place = counts_.find_or_add({token, merged.left});
    counts_[place].count -= left_.of[token].lost;
    left_.of[token] = {};
  }
  for (const std::uint32_t token : right_.seen) {
    const auto place = counts_.find_or_add({merged.right, token});
    counts_[place].count -= right_.of[token].lost;
    right_.of[token] = {};
  }
  left_.seen.clear();
  right_.seen.clear();
  for (const Gained& gained : gained_) {
    counts_[counts_.find_or_add(gained.pair)].count += gained.count;
  }
}

/// Turns gained_ into candidates, with their words from occurrences_.
void WordMerger::add_candidates() {
  std::uint32_t* list = room_for(occurrences_.size());
  const std::size_t first = candidates_.size();
  for (const Gained& gained : gained_) {
    const std::uint32_t place = counts_.find_or_add(gained.pair);
    candidates_.push_back(
        {.count = counts_[place].count,
         .pair = gained.pair,
         .words = list,
         .place = place});
    list += gained.words;
  }
  for (const Occurrence& each : occurrences_) {
    Candidate& candidate = candidates_[first + each.gained];
    candidate.words[candidate.words_size++] = each.word;
  }
  gained_.clear();
  occurrences_.clear();
  // Drops pairs that one merge both made and undid.
  const auto begin = candidates_.begin();
  auto end = begin + static_cast<std::ptrdiff_t>(first);
  for (auto each = end; each != candidates_.end(); ++each) {
    if (each->count > 0) {
      *end = *each;
      std::push_heap(begin, ++end);
    }
  }
  candidates_.erase(end, candidates_.end());
}

std::uint32_t* WordMerger::room_for(std::size_t words) {
  constexpr std::size_t chunk = 1 << 20;
  if (words > list_room_) {
    list_room_ = std::max(words, chunk);
    lists_.push_back(
        std::make_unique_for_overwrite<std::uint32_t[]>(list_room_));
    list_end_ = lists_.back().get();
  }
  std::uint32_t* const room = list_end_;
  list_end_ += words;
  list_room_ -= words;
  return room;
}

} // namespace cairn::text
