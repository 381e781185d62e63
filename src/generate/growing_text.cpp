#include "generate/growing_text.h"

#include "generate/choose_token.h"
#include "generate/log_probabilities.h"
#include "generate/repetition_penalty.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace cairn::generate {

GrowingText::GrowingText(std::uint64_t name, TextRequest asked)
    : number(name),
      request(std::move(asked)),
      tokens(request.prompt),
      random_(request.seed, fmt::format("text {}", request.number)),
      top_p_(request.sampling.top_p) {}

std::int64_t GrowingText::wanted(std::int64_t count) const {
  const std::int64_t end = computed + count;
  if (!request.of_prompt || reported >= prompt_length()) {
    return end == length() ? 1 : 0;
  }
  // The scores after token i tell the probability of token i + 1.
  const std::int64_t first = std::max(computed, reported - 1);
  const std::int64_t last =
      end == length() ? end : std::min(end, prompt_length() - 1);
  return last > first ? end - first : 0;
}

std::int64_t GrowingText::peak_of(std::int64_t count, std::int64_t known)
    const {
  const Sampling& sampling = request.sampling;
  const bool takes_likeliest = sampling.greedy || sampling.top_k == 1;
  const bool changes_scores = sampling.repetition_penalty != 1 ||
      (request.forbidden && request.forbidden->after == tokens.back());
  return takes_likeliest && !changes_scores && !reads_scores() &&
          computed + count == length()
      ? std::min(known, request.vocabulary.value_or(known))
      : 0;
}

/// True if more of the scores is read than what the next token needs.
bool GrowingText::reads_scores() const {
  return request.likeliest > 0 ||
      (request.of_prompt && reported < prompt_length());
}

std::optional<TokenChoice> GrowingText::choice_after(
    std::int64_t count,
    std::int64_t known) {
  if (reads_scores() || computed + count != length()) {
    return std::nullopt;
  }
  TokenChoice choice{
      .sampling = request.sampling,
      .chance = random_.uniform(tokens.size()),
      .among = std::min(known, request.vocabulary.value_or(known))};
  choice.sampling.top_p = top_p_;
  if (request.sampling.repetition_penalty != 1) {
    for (; noted_ < tokens.size(); ++noted_) {
      if (known_.insert(tokens[noted_]).second) {
        distinct_.push_back(tokens[noted_]);
      }
    }
    choice.penalized = distinct_;
  }
  if (request.forbidden && request.forbidden->after == tokens.back()) {
    choice.never = request.forbidden->token;
  }
  return choice;
}

void GrowingText::take_peak(
    const Peak& peak,
    std::int64_t longest,
    TextGrowth& growth) {
  tokens.push_back(likeliest_token(peak));
  growth.tokens.push_back({tokens.back(), peak.score - peak.log_sum});
  note_choice();
  growth.ending = ending(longest);
}

void GrowingText::take(
    std::span<const float> scores,
    std::int64_t rows,
    std::span<const Peak> peaks,
    std::int64_t longest,
    TextGrowth& growth) {
  if (rows == 0) {
    return;
  }
  const std::size_t columns = scores.size() / static_cast<std::size_t>(rows);
  const auto row = [&](std::int64_t i) {
    return scores.subspan(static_cast<std::size_t>(i) * columns, columns);
  };
  const auto scored = [&](std::int64_t i, std::int64_t token) {
    const auto index = static_cast<std::size_t>(i);
    return scored_token(
        row(i),
        token,
        request.likeliest,
        peaks.empty() ? std::nullopt
                      : std::optional<double>(peaks[index].log_sum));
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t next = computed - rows + i + 1;
    if (request.of_prompt && next == reported && next < prompt_length()) {
      growth.tokens.push_back(
          scored(i, tokens[static_cast<std::size_t>(next)]));
      ++growth.prompt_tokens;
      ++reported;
    }
  }
  if (computed == length()) {
    tokens.push_back(choose(row(rows - 1)));
    growth.tokens.push_back(scored(rows - 1, tokens.back()));
    growth.ending = ending(longest);
  }
}

/// The next token is chosen among fewer, where that is asked for.
void GrowingText::note_choice() {
  const Sampling& sampling = request.sampling;
  if (sampling.top_p_decay > 0) {
    top_p_ = std::max(top_p_ * sampling.top_p_decay, sampling.top_p_bound);
  }
}

std::int64_t GrowingText::choose(std::span<const float> scores) {
  const auto known = static_cast<std::int64_t>(scores.size());
  scores = scores.first(static_cast<std::size_t>(
      std::min(known, request.vocabulary.value_or(known))));
  Sampling sampling = request.sampling;
  sampling.top_p = top_p_;
  std::vector<float> changed;
  const bool forbids =
      request.forbidden && request.forbidden->after == tokens.back();
  if (sampling.repetition_penalty != 1 || forbids) {
    changed.assign(scores.begin(), scores.end());
    penalize(changed, tokens, sampling.repetition_penalty);
    const auto never =
        static_cast<std::size_t>(forbids ? request.forbidden->token : known);
    if (never < changed.size()) {
      changed[never] = -std::numeric_limits<float>::infinity();
    }
    scores = changed;
  }
  note_choice();
  return choose_token(scores, sampling, random_.uniform(tokens.size()));
}

std::optional<Ending> GrowingText::ending(std::int64_t longest) const {
  const std::int64_t last = tokens.back();
  if (last == request.end ||
      std::ranges::find(request.stops, last) != request.stops.end()) {
    return Ending::end_token;
  }
  if (length() >= longest ||
      length() - prompt_length() >= request.most_tokens) {
    return Ending::length;
  }
  return std::nullopt;
}

} // namespace cairn::generate
