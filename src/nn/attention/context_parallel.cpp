#include <cairn/nn/context_parallel.h>

#include "nn/attention/ring_attention.h"
#include "nn/attention/sequence_halves.h"
#include "nn/attention/ulysses_attention.h"

#include <ATen/ops/cat.h>
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
  for (const std::int64_t count : {heads, key_value_heads}) {
    if (count % ranks != 0) {
      refuse(
          "the ranks cannot exchange tokens for heads",
          count,
          ranks,
          "use a context parallel size that divides the heads, and those of "
          "keys and values, of a tensor parallel rank; or --cp-comm-type p2p, "
          "which takes any heads");
    }
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
  if (options.dropout > 0) {
    throw ConfigError(
        {.what = "ring attention drops no weights",
         .where = "--attention-dropout",
         .values = fmt::format("{}", options.dropout),
         .remedy = "set it to 0, or use --cp-comm-type a2a"});
  }
  if (options.mask.defined()) {
    throw ConfigError(
        {.what = "ring attention takes no mask",
         .where = "--context-parallel-size",
         .remedy = "leave it out, or use --cp-comm-type a2a"});
  }
  if (!query.is_cpu() && query.size(3) % 8 != 0) {
    throw ConfigError(
        {.what =
             "ring attention on a GPU takes heads of a multiple of 8 values",
         .where = "--kv-channels",
         .values = fmt::format("{}", query.size(3)),
         .remedy = "change their size, or use --cp-comm-type a2a"});
  }
  return ring_attention(
             query,
             key,
             value,
             options.scale.value_or(
                 1 / std::sqrt(static_cast<double>(query.size(3)))),
             context.group)
      .flatten(2, 3);
}

} // namespace cairn::nn
