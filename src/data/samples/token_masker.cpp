#include <cairn/data/token_masker.h>

#include "base/internal/numpy_random.h"

#include <cairn/base/error.h>
#include <cairn/data/data_selection.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace cairn::data {
namespace {

constexpr std::uint8_t masked = 1;
constexpr std::uint8_t permuted = 2;

std::vector<double> ngram_probabilities(const MaskingOptions& options) {
  std::vector<double> values(static_cast<std::size_t>(options.max_ngram));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 1.0 / static_cast<double>(i + 1);
  }
  values = normalized(values);
  if (options.favor_longer) {
    std::ranges::reverse(values);
  }
  // Normalized twice because Megatron does so; the second time changes last
  // bits.
  return normalized(values);
}

/// The pieces of up to `count` words, beginning with `word`.
std::span<const std::uint32_t> ngram(
    const MaskedTokens::Scratch& scratch,
    std::size_t word,
    std::size_t count) {
  const std::size_t last = std::min(word + count, scratch.words.size() - 1);
  return std::span(scratch.pieces)
      .subspan(scratch.words[word], scratch.words[last] - scratch.words[word]);
}

/// The longest n-gram of at most `count` words, beginning with `word`, that
/// keeps the total within `most`; empty when there is none.
std::span<const std::uint32_t> longest_within(
    const MaskedTokens::Scratch& scratch,
    std::size_t word,
    std::size_t count,
    double most,
    std::size_t total) {
  for (std::size_t n = count; n > 0; --n) {
    const auto pieces = ngram(scratch, word, n);
    if (most >= static_cast<double>(total + pieces.size())) {
      return pieces;
    }
  }
  return {};
}

} // namespace

void MaskingOptions::check() const {
  if (!(probability > 0.0 && probability < 1.0)) {
    throw ConfigError(
        {.what = "the masking probability must be between 0 and 1",
         .values = fmt::format("{}", probability)});
  }
  if (max_ngram < 1 || max_ngram > 1000) {
    throw ConfigError(
        {.what = "n-grams to mask have 1 to 1000 words",
         .values = fmt::format("{}", max_ngram)});
  }
  if (geometric && permute) {
    throw ConfigError(
        {.what = "n-grams from a geometric distribution cannot be permuted "
                 "too",
         .remedy = "choose one of the two"});
  }
}

TokenMasker::TokenMasker(
    MaskedVocabulary vocabulary,
    MaskingOptions options,
    MaskReplacement replacement)
    : vocabulary_(std::move(vocabulary)),
      options_(options),
      replacement_(replacement) {
  options_.check();
  if (!vocabulary_.special.mask) {
    throw ConfigError(
        {.what = "masking needs a tokenizer that has a mask token",
         .remedy = "use a BERT or RoBERTa vocabulary"});
  }
  mask_ = *vocabulary_.special.mask;
  ngram_probabilities_ = ngram_probabilities(options_);
}

void TokenMasker::find_words(
    std::span<const std::int64_t> tokens,
    MaskedTokens::Scratch& scratch) const {
  scratch.pieces.clear();
  scratch.words.clear();
  const text::SpecialIds& special = vocabulary_.special;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t id = tokens[i];
    if (id < 0 || static_cast<std::size_t>(id) >= vocabulary_.size()) {
      throw DataError(
          {.what = "a token is not in the vocabulary",
           .values = fmt::format("id {}, {} entries", id, vocabulary_.size()),
           .remedy = "give the tokenizer that the data was made with"});
    }
    if (id == special.classify || id == special.separator) {
      continue;
    }
    const bool joins = options_.whole_words && !scratch.words.empty() &&
        vocabulary_.continues_word[static_cast<std::size_t>(id)] != 0;
    if (!joins) {
      scratch.words.push_back(
          static_cast<std::uint32_t>(scratch.pieces.size()));
    }
    scratch.pieces.push_back(static_cast<std::uint32_t>(i));
  }
  scratch.words.push_back(static_cast<std::uint32_t>(scratch.pieces.size()));
}

std::int64_t TokenMasker::replacement(std::int64_t token, NumpyRandom& random)
    const {
  if (replacement_ == MaskReplacement::always_mask ||
      random.random_sample() < 0.8) {
    return mask_;
  }
  if (random.random_sample() >= 0.5) {
    return random.randint(0, static_cast<std::int64_t>(vocabulary_.size()));
  }
  return token;
}

void TokenMasker::mask(
    std::span<const std::int64_t> tokens,
    std::int64_t target_length,
    NumpyRandom& random,
    MaskedTokens& out) const {
  MaskedTokens::Scratch& scratch = out.scratch;
  find_words(tokens, scratch);
  out.tokens.assign(tokens.begin(), tokens.end());
  out.positions.clear();
  out.spans.clear();
  scratch.taken.assign(tokens.size(), 0);
  scratch.order.resize(scratch.words.size() - 1);
  std::iota(scratch.order.begin(), scratch.order.end(), 0U);
  random.shuffle(std::span(scratch.order));

  // Python's round() takes halves to the even number, as nearbyint() does.
  const double most = std::min(
      options_.probability * static_cast<double>(target_length),
      std::max(
          1.0,
          std::nearbyint(
              static_cast<double>(tokens.size()) * options_.probability)));

  for (const std::uint32_t word : scratch.order) {
    if (static_cast<double>(out.positions.size()) >= most) {
      break;
    }
    const std::size_t count = options_.geometric
        ? static_cast<std::size_t>(
              std::min<std::int64_t>(random.geometric(0.2), options_.max_ngram))
        : random.choice(ngram_probabilities_) + 1;
    const auto pieces =
        longest_within(scratch, word, count, most, out.positions.size());
    if (pieces.empty() || std::ranges::any_of(pieces, [&](std::uint32_t at) {
          return scratch.taken[at] != 0;
        })) {
      continue;
    }
    const auto begin = static_cast<std::uint32_t>(out.positions.size());
    for (const std::uint32_t at : pieces) {
      scratch.taken[at] = masked;
      out.tokens[at] = replacement(tokens[at], random);
      out.positions.push_back(at);
    }
    out.spans.push_back(
        {begin, static_cast<std::uint32_t>(out.positions.size())});
  }
  if (options_.permute) {
    permute(most, random, out);
  }
  std::ranges::sort(out.spans, {}, [&](const MaskedTokens::Span& span) {
    return out.positions[span.begin];
  });
}

void TokenMasker::permute(double most, NumpyRandom& random, MaskedTokens& out)
    const {
  MaskedTokens::Scratch& scratch = out.scratch;
  random.shuffle(std::span(scratch.order));
  std::size_t count = 0;
  for (const std::uint32_t word : scratch.order) {
    if (static_cast<double>(count) >= most) {
      break;
    }
    const auto pieces = longest_within(
        scratch,
        word,
        random.choice(ngram_probabilities_) + 1,
        most,
        count);
    if (std::ranges::any_of(pieces, [&](std::uint32_t at) {
          return scratch.taken[at] != 0;
        })) {
      continue;
    }
    for (const std::uint32_t at : pieces) {
      scratch.taken[at] = permuted;
    }
    count += pieces.size();
  }

  const std::size_t first = out.positions.size();
  for (std::uint32_t at = 0; at < scratch.taken.size(); ++at) {
    if (scratch.taken[at] == permuted) {
      out.positions.push_back(at);
    }
  }
  const auto places = std::span(out.positions).subspan(first);
  scratch.permuted.assign(places.begin(), places.end());
  random.shuffle(std::span(scratch.permuted));
  scratch.displaced.assign(out.tokens.begin(), out.tokens.end());
  for (std::size_t i = 0; i < places.size(); ++i) {
    out.tokens[places[i]] = scratch.displaced[scratch.permuted[i]];
  }
}

} // namespace cairn::data
