#include "generate/leading_decoder.h"

#include <cairn/base/error.h>

#include <utility>

namespace cairn::generate {

using Change = CacheChange::Kind;

namespace {

/// Throws ConfigError for what only whole models can do.
void check_options(
    const TextBatchOptions& options,
    std::optional<WeightType> weights) {
  if (options.recompute) {
    throw ConfigError(
        {.what = "ranks that share a model keep keys and values",
         .where = "--recompute",
         .remedy = "leave it out"});
  }
  if (options.weights && options.weights != weights) {
    throw ConfigError(
        {.what = "the weights have been read with other numbers",
         .where = "--weight-type",
         .remedy = "set SharedModelOptions::weights"});
  }
}

} // namespace

SharedModel::Leading::Leading(
    std::shared_ptr<Core> core,
    const TextBatchOptions& options)
    : core_(std::move(core)),
      number_(core_->next_decoder()),
      own_(
          core_->description(),
          core_->part(),
          core_->weights(),
          core_->cache_of(options),
          options.most_texts,
          core_->links()) {
  check_options(options, core_->weight_type());
  const CacheShape cache = core_->cache_of(options);
  core_->together(
      {.kind = RankOrder::Kind::make,
       .decoder = number_,
       .most_texts = options.most_texts,
       .page_tokens = cache.page_tokens,
       .most_pages = cache.most_pages},
      [] {});
}

SharedModel::Leading::~Leading() {
  try {
    core_->together({.kind = RankOrder::Kind::drop, .decoder = number_}, [] {});
  } catch (...) { // NOLINT(bugprone-empty-catch)
    // The job has failed, so the others have ended.
  }
}

bool SharedModel::Leading::reserve(std::size_t place, std::int64_t tokens) {
  if (!own_.reserve(place, tokens)) {
    return false;
  }
  changes_.push_back(
      {.kind = Change::reserve, .place = place, .tokens = tokens});
  return true;
}

void SharedModel::Leading::release(std::size_t place) {
  own_.release(place);
  changes_.push_back({.kind = Change::release, .place = place});
}

bool SharedModel::Leading::copy(
    std::size_t from,
    std::size_t to,
    std::int64_t tokens) {
  if (!own_.copy(from, to, tokens)) {
    return false;
  }
  changes_.push_back(
      {.kind = Change::copy, .place = to, .from = from, .tokens = tokens});
  return true;
}

std::span<const float> SharedModel::Leading::compute(
    std::span<const Piece> pieces) {
  const RankOrder order{
      .kind = RankOrder::Kind::step,
      .decoder = number_,
      .changes = std::exchange(changes_, {}),
      .tokens = rows_of(pieces)};
  return core_->together(order, [&] { return own_.compute(order.tokens); });
}

} // namespace cairn::generate
