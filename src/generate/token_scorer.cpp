#include <cairn/generate/token_scorer.h>

#include "generate/check_prompt.h"
#include "generate/decoder.h"
#include "generate/log_probabilities.h"

#include <cairn/base/error.h>
#include <cairn/generate/generate.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::generate {

class TokenScorer::Parts {
 public:
  Parts(TextModel model, TextBatchOptions options) : model_(std::move(model)) {
    require_left_to_right(model_.description());
    options.most_texts = 1;
    decoder_ = model_.make_decoder(options);
    step_tokens_ = options.step_tokens.value_or(decoder_->step_tokens());
  }

  std::vector<ScoredToken> score(
      std::span<const std::int64_t> tokens,
      std::int64_t scored,
      int likeliest) {
    const std::int64_t read = std::ssize(tokens) - 1; // the last is not read
    if (read < 1 || scored < 0 || scored > read) {
      throw DataError(
          {.what = "a token is scored by at least one before it",
           .values = fmt::format("{} of {} tokens", scored, tokens.size())});
    }
    check_tokens(tokens, model_.description());
    const bool is_limited =
        model_.description().position == model::PositionKind::learned;
    if (is_limited && read > model_.description().positions) {
      refuse(read, "positions", model_.description().positions);
    }
    const Place place{*decoder_};
    if (!decoder_->reserve(0, read)) {
      refuse(read, "room in the cache", decoder_->longest());
    }
    std::vector<ScoredToken> result;
    for (std::int64_t begin = 0; begin < read; begin += step_tokens_) {
      const std::int64_t end = std::min(read, begin + step_tokens_);
      const Piece piece{
          .place = 0,
          .text = tokens.first(static_cast<std::size_t>(end)),
          .begin = begin,
          .scored =
              std::clamp(end - (read - scored), std::int64_t{0}, end - begin),
          .all = tokens.first(static_cast<std::size_t>(read))};
      take(
          decoder_->compute({&piece, 1}),
          tokens.subspan(static_cast<std::size_t>(end - piece.scored + 1)),
          piece.scored,
          likeliest,
          result);
    }
    return result;
  }

 private:
  [[noreturn]] static void refuse(
      std::int64_t tokens,
      const char* what,
      std::int64_t most) {
    throw DataError(
        {.what = "the text is too long for the model",
         .values = fmt::format("{} tokens; {}: {}", tokens, what, most),
         .remedy = "shorten it"});
  }

  /// Forgets the text when it was scored, also by an exception.
  struct Place {
    Decoder& decoder;
    ~Place() { decoder.release(0); }
  };

  /// Appends what rows of scores say about the tokens that follow.
  void take(
      std::span<const float> scores,
      std::span<const std::int64_t> next,
      std::int64_t rows,
      int likeliest,
      std::vector<ScoredToken>& result) const {
    const auto columns =
        static_cast<std::size_t>(model_.description().vocabulary);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      result.push_back(scored_token(
          scores.subspan(row * columns, columns),
          next[row],
          likeliest));
    }
  }

  TextModel model_;
  std::unique_ptr<Decoder> decoder_;
  std::int64_t step_tokens_ = 0;
};

TokenScorer::TokenScorer(TextModel model, TextBatchOptions options)
    : parts_(std::make_unique<Parts>(std::move(model), std::move(options))) {}
TokenScorer::~TokenScorer() = default;
TokenScorer::TokenScorer(TokenScorer&&) noexcept = default;
TokenScorer& TokenScorer::operator=(TokenScorer&&) noexcept = default;

std::vector<ScoredToken> TokenScorer::score(
    std::span<const std::int64_t> tokens,
    std::int64_t scored,
    int likeliest) {
  return parts_->score(tokens, scored, likeliest);
}

} // namespace cairn::generate
