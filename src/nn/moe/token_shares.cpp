#include "nn/moe/token_shares.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

namespace cairn::nn {

void check_divides(
    const at::Tensor& x,
    const distributed::ProcessGroup& group) {
  if (x.size(1) % group.size() != 0) {
    throw ConfigError(
        {.what = "sequence parallelism does not divide the sequence",
         .where = "sequence-parallel",
         .values = fmt::format("{} over {} ranks", x.size(1), group.size()),
         .remedy = "choose a sequence length that the tensor parallel size "
                   "divides, or leave out --sequence-parallel"});
  }
}

at::Tensor as_share(
    const at::Tensor& tokens,
    const at::Tensor& whole,
    const distributed::ProcessGroup& group) {
  check_divides(whole, group);
  return tokens.view(
      {whole.size(0), whole.size(1) / group.size(), tokens.size(-1)});
}

} // namespace cairn::nn
