#include "models/internal/token_dropping.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <cairn/base/counter_random.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace cairn::models {

at::Tensor chosen_tokens(const TokenChoice& choice) {
  at::Tensor all = at::empty(
      {std::ssize(choice.layers), choice.batch, choice.kept},
      at::kLong);
  auto* out = all.mutable_data_ptr<std::int64_t>();
  std::vector<std::pair<std::uint32_t, std::int64_t>> drawn(
      static_cast<std::size_t>(choice.sequence));
  for (const std::int64_t layer : choice.layers) {
    const CounterRandom random(
        choice.seed,
        fmt::format("tokens of layer {}", layer));
    for (std::int64_t i = 0; i < choice.batch; ++i) {
      const auto sample = static_cast<std::uint64_t>(choice.first_sample + i);
      for (std::size_t token = 0; token < drawn.size(); ++token) {
        drawn[token] = {
            random.bits((sample << 32) + token),
            static_cast<std::int64_t>(token)};
      }
      std::ranges::nth_element(drawn, drawn.begin() + choice.kept);
      for (std::int64_t k = 0; k < choice.kept; ++k) {
        out[k] = drawn[static_cast<std::size_t>(k)].second;
      }
      std::sort(out, out + choice.kept);
      out += choice.kept;
    }
  }
  return all;
}

nn::Block::Output forward_kept(
    const nn::Block& block,
    const at::Tensor& x,
    nn::BlockInput input,
    const at::Tensor& kept) {
  if (input.mask.defined() || input.placed.defined()) {
    throw UsageError({.what = "tokens are dropped where no mask is"});
  }
  const std::int64_t sequence = x.size(1);
  const at::Tensor starts = at::arange(kept.size(0), kept.options()) * sequence;
  const at::Tensor rows = (kept + starts.unsqueeze(1)).flatten();
  input.sequence = sequence;
  input.positions =
      input.positions.defined() ? input.positions.gather(1, kept) : kept;
  const nn::Block::Output part = block.forward(
      x.flatten(0, 1).index_select(0, rows).view(
          {kept.size(0), kept.size(1), x.size(2)}),
      input);
  const at::Tensor all = x.to(part.hidden.scalar_type()).flatten(0, 1);
  return {
      all.index_copy(0, rows, part.hidden.flatten(0, 1)).view(x.sizes()),
      part.balance_loss};
}

} // namespace cairn::models
