#include <cairn/nn/vocabulary.h>

#include "nn/loss/word_rows.h"

#include <cairn/nn/tensor_parallel.h>

#include <algorithm>

namespace cairn::nn {

VocabularyPart VocabularyPart::of(const SlicedShape& shape) {
  const std::int64_t begin = shape.offset[0];
  const std::int64_t rows = shape.local[0];
  return {
      begin,
      rows,
      std::clamp<std::int64_t>(shape.whole[0] - begin, 0, rows)};
}

SlicedShape VocabularyOptions::shape(
    const distributed::ProcessGroup& group,
    std::optional<std::int64_t> columns) const {
  std::vector<std::int64_t> whole{size};
  if (columns) {
    whole.push_back(*columns);
  }
  return SlicedShape::cut_padded(std::move(whole), padded, group);
}

VocabularyEmbedding::VocabularyEmbedding(
    const LayerContext& context,
    const VocabularyOptions& vocabulary,
    std::int64_t hidden)
    : group_(context.group), split_tokens_(context.splits_tokens()) {
  const SlicedShape shape = vocabulary.shape(group_, hidden);
  part_ = VocabularyPart::of(shape);
  weight_ = add_parameter(context, "weight", shape, model::InitialLaw::normal);
}

at::Tensor VocabularyEmbedding::forward(const at::Tensor& tokens) const {
  if (group_.size() == 1) {
    return word_rows(weight_, tokens);
  }
  const at::Tensor place = tokens - part_.begin;
  const at::Tensor elsewhere = place.lt(0).logical_or_(place.ge(part_.rows));
  const at::Tensor found = word_rows(weight_, place.masked_fill(elsewhere, 0))
                               .masked_fill(elsewhere.unsqueeze(-1), 0);
  return split_tokens_ ? scatter_tokens(found, group_)
                       : reduce_from_group(found, group_);
}

} // namespace cairn::nn
