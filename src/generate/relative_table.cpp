#include "generate/relative_table.h"

#include "nn/internal/relative_bias.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

namespace cairn::generate {

RelativeTable::RelativeTable(
    const model::ModelDescription& model,
    at::Tensor weight,
    bool looks_ahead)
    : model_(model), weight_(std::move(weight)), looks_ahead_(looks_ahead) {}

void RelativeTable::grow(std::int64_t tokens) {
  if (!weight_.defined() || tokens <= tokens_) {
    return;
  }
  tokens_ = std::max(tokens, 2 * tokens_);
  const nn::RelativeBiasOptions options{
      .heads = model_.heads,
      .buckets = model_.relative_buckets,
      .distance = model_.relative_distance,
      .bidirectional = looks_ahead_};
  // What the first token adds for all behind it, and all add for the first.
  const at::Tensor ahead =
      nn::relative_bias(weight_, 1, tokens_, options).contiguous();
  const at::Tensor back =
      nn::relative_bias(weight_, tokens_, 1, options).contiguous();
  table_.resize(static_cast<std::size_t>(model_.heads * head_step()));
  for (std::int64_t head = 0; head < model_.heads; ++head) {
    const float* after = ahead.const_data_ptr<float>() + head * tokens_;
    const float* before = back.const_data_ptr<float>() + head * tokens_;
    float* own = table_.data() + head * head_step();
    std::reverse_copy(before, before + tokens_, own);
    std::copy_n(after + 1, tokens_ - 1, own + tokens_);
  }
}

const float* RelativeTable::of(std::int64_t head, std::int64_t position) const {
  return weight_.defined()
      ? table_.data() + head * head_step() + tokens_ - 1 - position
      : nullptr;
}

} // namespace cairn::generate
