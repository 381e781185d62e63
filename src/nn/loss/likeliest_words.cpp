#include "nn/loss/word_scores.h"
#include "nn/moe/token_shares.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <cairn/nn/vocabulary.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace cairn::nn {
namespace {

/// The best of this rank's words for each token.
struct OwnBest {
  at::Tensor score; ///< [tokens], float
  at::Tensor word;  ///< [tokens]
};

OwnBest own_best(const at::Tensor& hidden, const VocabularyHead& head) {
  if (head.part.used == 0) { // nothing but padding
    const std::vector<std::int64_t> tokens{hidden.size(0)};
    return {
        at::full(
            tokens,
            -std::numeric_limits<float>::infinity(),
            hidden.options().dtype(at::kFloat)),
        at::full(tokens, head.part.begin, hidden.options().dtype(at::kLong))};
  }
  const at::Tensor scores =
      word_scores(hidden, head).narrow(1, 0, head.part.used);
  const at::Tensor best = scores.argmax(1);
  return {
      scores.gather(1, best.unsqueeze(1)).squeeze(1).to(at::kFloat),
      best + head.part.begin};
}

} // namespace

at::Tensor likeliest_words(
    const at::Tensor& hidden,
    const VocabularyHead& head) {
  const at::NoGradGuard no_grad;
  const at::Tensor own = flat_tokens(hidden);
  const at::Tensor all =
      head.split_tokens ? head.group.all_gather(own).wait() : own;
  at::Tensor words = at::empty({all.size(0)}, all.options().dtype(at::kLong));
  const std::int64_t step = tokens_per_chunk(all, head.part.rows);
  for (std::int64_t begin = 0; begin < all.size(0); begin += step) {
    const std::int64_t length = std::min(step, all.size(0) - begin);
    const OwnBest best = own_best(all.narrow(0, begin, length), head);
    // The ranks' words follow each other, so the first rank with the highest
    // score has the first word with it.
    const at::Tensor scores =
        head.group.all_gather(best.score.unsqueeze(0)).wait();
    const at::Tensor candidates =
        head.group.all_gather(best.word.unsqueeze(0)).wait();
    words.narrow(0, begin, length)
        .copy_(candidates.gather(0, scores.argmax(0).unsqueeze(0)).squeeze(0));
  }
  std::vector<std::int64_t> shape = hidden.sizes().vec();
  shape.pop_back();
  if (head.split_tokens) {
    shape[1] *= head.group.size();
  }
  return words.view(shape);
}

} // namespace cairn::nn
