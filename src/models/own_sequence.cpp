#include <cairn/models/transformer.h>

#include <ATen/ops/arange.h>
#include <cairn/base/error.h>

namespace cairn::models {

ModelInput own_sequence(
    const ModelInput& whole,
    const nn::ContextParallel& sequence) {
  if (!sequence.is_on()) {
    return whole;
  }
  if (whole.mask.defined() && sequence.kind == nn::ContextKind::ring) {
    throw UsageError(
        {.what = "a mask for a sequence that goes round the ranks",
         .where = "--context-parallel-size",
         .remedy = "give ModelInput::first_seen, or use --cp-comm-type a2a"});
  }
  const auto part = [&](const at::Tensor& x) {
    return x.defined() ? nn::own_sequence(x, sequence) : x;
  };
  ModelInput own = whole;
  own.tokens = part(whole.tokens);
  own.positions = part(
      whole.positions.defined()
          ? whole.positions
          : at::arange(whole.tokens.size(1), whole.tokens.options())
                .expand_as(whole.tokens));
  own.first_seen = part(whole.first_seen);
  own.token_types = part(whole.token_types);
  own.labels = part(whole.labels);
  own.loss_mask = part(whole.loss_mask);
  // The mask stays whole: within attention a rank has all tokens.
  own.sequence_ranks = sequence.group.size();
  return own;
}

} // namespace cairn::models
