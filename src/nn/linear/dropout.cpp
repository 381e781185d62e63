#include <cairn/nn/dropout.h>

#include "nn/attention/sequence_halves.h"
#include "nn/linear/dropout_key.h"
#include "nn/linear/dropped_rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

namespace cairn::nn {
namespace {

/// Positions of a rank's tokens, where ranks share every sequence.
void place_tokens(kernels::DropoutRows& place, const ContextParallel& shared) {
  place.early = place.tokens;
  if (!shared.is_on()) {
    return;
  }
  const int rank = shared.group.rank();
  const int ranks = shared.group.size();
  if (shared.kind == ContextKind::ulysses) {
    place.early_begin = rank * place.tokens;
    return;
  }
  const auto [early, late] = sequence_halves(place.tokens * ranks, rank, ranks);
  place.early = early.size;
  place.early_begin = early.begin;
  place.late_begin = late.begin;
}

} // namespace

at::Tensor sample_numbers(
    std::int64_t first,
    std::int64_t count,
    at::Device device) {
  return at::arange(
      first,
      first + count,
      at::TensorOptions(device).dtype(at::kLong));
}

at::Tensor drawn_samples(std::int64_t count, at::Device device) {
  return at::randint(
      std::int64_t{1} << 48U,
      {count},
      at::TensorOptions(device).dtype(at::kLong));
}

Dropout::Dropout(
    const LayerContext& context,
    std::string_view name,
    double probability)
    : probability_(probability),
      key_(dropout_key(context, name)),
      parts_(context.splits_tokens() ? context.group.size() : 1),
      own_part_(context.splits_tokens() ? context.group.rank() : 0),
      sequence_(context.sequence) {}

at::Tensor Dropout::forward(
    const at::Tensor& x,
    const at::Tensor& samples,
    std::int64_t text) const {
  if (!is_on()) {
    return x;
  }
  if (samples.defined() &&
      (samples.numel() != x.size(0) || samples.device() != x.device())) {
    throw UsageError(
        {.what = "dropout needs the number of each sample, on its device",
         .values = fmt::format(
             "{} numbers for {} samples",
             samples.numel(),
             x.size(0))});
  }
  kernels::DropoutRows place{.tokens = x.size(1) * parts_};
  place.first_row = own_part_ * x.size(0) * x.size(1);
  place.first_head = text;
  place.key = key_;
  place.drop(probability_);
  place_tokens(place, sequence_);
  return dropped_rows(
      x,
      samples.defined() ? samples : drawn_samples(x.size(0), x.device()),
      place);
}

} // namespace cairn::nn
