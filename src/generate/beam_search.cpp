#include <cairn/generate/beam_search.h>

#include "generate/check_prompt.h"
#include "generate/decoder.h"
#include "generate/log_probabilities.h"

#include <cairn/base/error.h>
#include <cairn/generate/generate.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace cairn::generate {

/// A text that is followed.
struct FollowedText {
  std::vector<std::int64_t> tokens; ///< prompt included
  double sum = 0;                   ///< of log-probabilities
  std::size_t place = 0;
};

/// A text that is followed, with one token more.
struct LongerText {
  std::size_t parent;
  std::int64_t token;
  double sum;
};

namespace {

using Tokens = std::vector<std::int64_t>;

void check_beams(const BeamOptions& options, std::int64_t widest) {
  if (options.width < 1 || options.width > widest) {
    throw ConfigError(
        {.what = "beams are at least one",
         .where = "--beam-width",
         .values = fmt::format("{}, where {} fit", options.width, widest)});
  }
  if (options.most_tokens < 1) {
    throw ConfigError({.what = "a text gets one token at least"});
  }
}

/// The best candidates of all texts, best first.
std::vector<LongerText> best_candidates(
    std::span<const FollowedText> texts,
    std::span<const float> scores,
    const BeamOptions& options) {
  const std::size_t columns = scores.size() / texts.size();
  const auto choices = static_cast<std::size_t>(std::min<std::int64_t>(
      static_cast<std::int64_t>(columns),
      options.vocabulary.value_or(static_cast<std::int64_t>(columns))));
  const auto count = static_cast<int>(2 * options.width);
  std::vector<LongerText> all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto row = scores.subspan(i * columns, columns);
    const double whole = log_sum_of_exponentials(row);
    for (const std::int64_t token : highest(row.first(choices), count)) {
      all.push_back(
          {i,
           token,
           texts[i].sum +
               static_cast<double>(row[static_cast<std::size_t>(token)]) -
               whole});
    }
  }
  std::ranges::stable_sort(all, std::greater<>(), &LongerText::sum);
  all.resize(std::min(all.size(), static_cast<std::size_t>(count)));
  return all;
}

} // namespace

class BeamSearch::Parts {
 public:
  Parts(TextModel model, std::int64_t widest, TextBatchOptions options)
      : model_(std::move(model)), widest_(widest) {
    require_writes(model_.description());
    options.most_texts = 2 * widest; // texts, and those that follow them
    decoder_ = model_.make_decoder(options);
    step_tokens_ = options.step_tokens.value_or(decoder_->step_tokens());
    longest_short_ = model::longest_short_text(model_.description())
                         .value_or(positions_of(model_.description()));
  }

  std::vector<Beam> after(const Tokens& prompt, const BeamOptions& options) {
    check_beams(options, widest_);
    const std::int64_t longest =
        std::min(positions_of(model_.description()), decoder_->longest() + 1);
    check_prompt(prompt, model_.description(), longest);
    check_source(options.source, model_.description());
    source_ = options.source;
    const std::int64_t most = std::min(
        options.most_tokens,
        longest - static_cast<std::int64_t>(prompt.size()));
    texts_ = {{.tokens = prompt}};
    std::vector<Beam> best;
    const Released released{*this};
    if (!source_.empty()) {
      require(decoder_->reserve_source(0, std::ssize(source_)));
    }
    read_beginning(texts_[0]);
    for (std::int64_t length = 1; length <= most; ++length) {
      const auto candidates =
          best_candidates(texts_, scores_of_last_tokens(), options);
      const auto score = [&](double sum) {
        return sum /
            std::pow(static_cast<double>(length), options.length_penalty);
      };
      std::vector<LongerText> next;
      for (std::size_t rank = 0; rank < candidates.size(); ++rank) {
        const LongerText& each = candidates[rank];
        const bool ends = each.token == options.end ||
            std::ranges::find(options.stops, each.token) != options.stops.end();
        if (!ends && length < most) {
          next.push_back(each);
        } else if (rank < static_cast<std::size_t>(options.width)) {
          best.push_back(finished(each, prompt.size(), ends));
          best.back().score = score(each.sum);
        }
      }
      const auto width = static_cast<std::size_t>(options.width);
      next.resize(std::min(next.size(), width));
      std::ranges::stable_sort(best, std::greater<>(), &Beam::score);
      best.resize(std::min(best.size(), width));
      if (next.empty() ||
          (best.size() == width &&
           best.back().score >= score(next.front().sum))) {
        break;
      }
      follow(next);
    }
    return best;
  }

 private:
  /// Forgets all texts when a search ends, also by an exception.
  struct Released {
    Parts& parts;
    ~Released() {
      for (std::int64_t i = 0; i < 2 * parts.widest_; ++i) {
        parts.decoder_->release(static_cast<std::size_t>(i));
      }
    }
  };

  void reserve(std::size_t place, std::size_t tokens) {
    require(decoder_->reserve(place, static_cast<std::int64_t>(tokens)));
  }

  static void require(bool has_room) {
    if (!has_room) {
      throw DataError(
          {.what = "the cache of keys and values has no room for all beams",
           .remedy = "take fewer beams or a shorter text"});
    }
  }

  /// Computes all tokens of a text but the last one.
  void read_beginning(const FollowedText& text) {
    const std::span<const std::int64_t> all = text.tokens;
    const auto end = static_cast<std::int64_t>(all.size()) - 1;
    for (std::int64_t begin = 0; begin < end; begin += step_tokens_) {
      const auto length =
          static_cast<std::size_t>(std::min(end, begin + step_tokens_));
      reserve(text.place, length);
      const Piece piece{
          .place = text.place,
          .text = all.first(length),
          .begin = begin,
          .scored = 0,
          .source = source_,
          .all = all};
      decoder_->compute({&piece, 1});
    }
    has_long_keys_ = std::ssize(all) > longest_short_;
  }

  /// Begins anew with texts that have become too long for the factors that
  /// LongRoPE gave their keys.
  void turn_keys_again() {
    const bool is_long = std::ssize(texts_[0].tokens) > longest_short_;
    if (!is_long || has_long_keys_) {
      return;
    }
    for (const FollowedText& text : texts_) {
      decoder_->release(text.place);
    }
    for (const FollowedText& text : texts_) {
      read_beginning(text);
    }
  }

  std::span<const float> scores_of_last_tokens() {
    turn_keys_again();
    std::vector<Piece> pieces;
    for (const FollowedText& text : texts_) {
      reserve(text.place, text.tokens.size());
      pieces.push_back(
          {.place = text.place,
           .text = text.tokens,
           .begin = static_cast<std::int64_t>(text.tokens.size()) - 1,
           .scored = 1,
           .source = source_,
           .all = text.tokens});
    }
    return decoder_->compute(pieces);
  }

  Beam finished(const LongerText& candidate, std::size_t prompt, bool ends)
      const {
    const Tokens& tokens = texts_[candidate.parent].tokens;
    Beam beam{
        .tokens = {
            tokens.begin() + static_cast<std::ptrdiff_t>(prompt),
            tokens.end()}};
    beam.finished = ends;
    if (!ends) {
      beam.tokens.push_back(candidate.token);
    }
    return beam;
  }

  /// Follows these candidates instead of the texts before them. The new texts
  /// get the other half of the places.
  void follow(std::span<const LongerText> candidates) {
    const bool in_first_half =
        texts_[0].place < static_cast<std::size_t>(widest_);
    std::size_t place = in_first_half ? static_cast<std::size_t>(widest_) : 0;
    std::vector<FollowedText> next;
    for (const LongerText& each : candidates) {
      const FollowedText& parent = texts_[each.parent];
      require(decoder_->copy(
          parent.place,
          place,
          static_cast<std::int64_t>(parent.tokens.size())));
      next.push_back({parent.tokens, each.sum, place++});
      next.back().tokens.push_back(each.token);
    }
    for (const FollowedText& text : texts_) {
      decoder_->release(text.place);
    }
    texts_ = std::move(next);
  }

  TextModel model_;
  std::int64_t widest_;
  std::int64_t step_tokens_ = 0;
  std::int64_t longest_short_ = 0; ///< see longest_short_text()
  bool has_long_keys_ = false;
  std::unique_ptr<Decoder> decoder_;
  std::vector<FollowedText> texts_;
  Tokens source_;
};

BeamSearch::BeamSearch(
    TextModel model,
    std::int64_t widest,
    const TextBatchOptions& options)
    : parts_(std::make_unique<Parts>(std::move(model), widest, options)) {}
BeamSearch::~BeamSearch() = default;
BeamSearch::BeamSearch(BeamSearch&&) noexcept = default;
BeamSearch& BeamSearch::operator=(BeamSearch&&) noexcept = default;

std::vector<Beam> BeamSearch::after(
    const std::vector<std::int64_t>& prompt,
    const BeamOptions& options) {
  return parts_->after(prompt, options);
}

} // namespace cairn::generate
