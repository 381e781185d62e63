#include <cairn/nn/context_parallel.h>

#include "nn/attention/ring_attention.h"
#include "nn/attention/sequence_halves.h"
#include "nn/attention/ulysses_attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <cairn/base/error.h>
#include <cairn/nn/attention.h>
#include <fmt/format.h>

#include <cmath>

namespace cairn::nn {
namespace {

[[noreturn]] void refuse(
    const char* what,
    std::int64_t count,
    int parts,
    const char* remedy) {
  throw ConfigError(
      {.what = what,
       .where = "--context-parallel-size",
       .values = fmt::format("{} over {}", count, parts),
       .remedy = remedy});
}

} // namespace

at::Tensor own_sequence(
    const at::Tensor& whole,
    const ContextParallel& context) {
  if (!context.is_on()) {
    return whole;
  }
  const int rank = context.group.rank();
  const int ranks = context.group.size();
  const bool ring = context.kind == ContextKind::ring;
  const int pieces = ring ? 2 * ranks : ranks;
  const std::int64_t sequence = whole.size(1);
  if (sequence % pieces != 0) {
    refuse(
        "the ranks cannot share a sequence of this length",
        sequence,
        pieces,
        ring ? "make the length a multiple of twice the ranks"
             : "make the length a multiple of the ranks");
  }
  if (!ring) {
    const std::int64_t own = sequence / ranks;
    return whole.narrow(1, rank * own, own).contiguous();
  }
  const auto [early, late] = sequence_halves(sequence, rank, ranks);
  return at::cat(
      {whole.narrow(1, early.begin, early.size),
       whole.narrow(1, late.begin, late.size)},
      1);
}

void check_heads(
    std::int64_t heads,
    std::int64_t key_value_heads,
    const ContextParallel& context) {
  const int ranks = context.group.size();
  if (context.kind == ContextKind::ring) {
    return;
  }
  if (heads % ranks != 0) {
    refuse(
        "the ranks cannot exchange tokens for heads",
        heads,
        ranks,
        "use a context parallel size that divides the heads of a tensor "
        "parallel rank; or --cp-comm-type p2p, which takes any heads");
  }
  if (key_value_heads % ranks != 0 && ranks % key_value_heads != 0) {
    refuse(
        "the ranks cannot exchange tokens for heads of keys and values",
        key_value_heads,
        ranks,
        "use a context parallel size that divides the heads of keys and values "
        "of a tensor parallel rank, or is a multiple of them; or "
        "--cp-comm-type p2p, which takes any heads");
  }
}

at::Tensor attend_in_context(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const AttendOptions& options,
    const ContextParallel& context) {
  if (context.kind == ContextKind::ulysses) {
    return ulysses_attention(query, key, value, options, context.group);
  }
  if (options.mask.defined()) {
    throw UsageError(
        {.what = "ring attention takes no mask, but where documents begin",
         .remedy = "give AttendOptions::first_seen"});
  }
  const at::Tensor& first_seen = options.first_seen;
  if (first_seen.defined() &&
      (first_seen.sizes() != query.sizes().slice(0, 2) ||
       first_seen.scalar_type() != at::kLong || !first_seen.is_cpu())) {
    throw UsageError(
        {.what = "the first tokens that are seen are 64-bit integers on the "
                 "CPU, [batch, own tokens]",
         .values = fmt::format(
             "[{}] for [{}]",
             fmt::join(first_seen.sizes(), ", "),
             fmt::join(query.sizes(), ", "))});
  }
  const std::int64_t size = query.size(3);
  const auto longer = [&](const at::Tensor& x) {
    // The GPU's kernels take heads of a multiple of 8 values. Zeros change no
    // score.
    const std::int64_t missing = x.is_cpu() ? 0 : (8 - size % 8) % 8;
    return missing == 0 ? x : at::constant_pad_nd(x, {0, missing});
  };
  return ring_attention(
             longer(query),
             longer(key),
             longer(value),
             {.scale = options.scale.value_or(
                  1 / std::sqrt(static_cast<double>(size))),
              .dropout = options.dropout,
              .noise = options.noise,
              .first_seen = first_seen},
             context.group)
      .narrow(3, 0, size)
      .flatten(2, 3);
}

} // namespace cairn::nn
