#include "models/text_positions.h"

namespace cairn::models {

bool counts_text(const ModelDescription& d) {
  return d.family == model::ModelFamily::roberta && d.position_offset > 0 &&
      d.pad_token.has_value();
}

at::Tensor text_positions(const at::Tensor& tokens, const ModelDescription& d) {
  const at::Tensor text = tokens.ne(*d.pad_token).to(at::kLong);
  return text.cumsum(1).mul_(text).sub_(1);
}

} // namespace cairn::models
