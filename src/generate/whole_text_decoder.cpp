#include "generate/whole_text_decoder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <utility>

namespace cairn::generate {
namespace {

/// Length of the row that the model computes. A GPU prepares its kernels anew
/// for every new length, which takes longer than computing a few more tokens.
/// With experts the row is not padded: padding would take places that the text
/// needs.
std::int64_t row_length(
    std::int64_t length,
    const models::ModelDescription& model,
    at::Device device) {
  constexpr std::int64_t step = 64;
  return device.is_cuda() && !model.experts
      ? std::min(model.positions, (length + step - 1) / step * step)
      : length;
}

} // namespace

WholeTextDecoder::WholeTextDecoder(std::shared_ptr<models::Transformer> model)
    : model_(std::move(model)) {}

std::int64_t WholeTextDecoder::longest() const {
  return model_->description().positions;
}

std::span<const float> WholeTextDecoder::compute(
    std::span<const Piece> pieces) {
  const at::NoGradGuard no_grad;
  const at::Device device = model_->parameters().front().device();
  scores_.clear();
  for (const Piece& piece : pieces) {
    if (piece.scored == 0) {
      continue;
    }
    const auto length = static_cast<std::int64_t>(piece.text.size());
    at::Tensor row = at::full(
        {1, row_length(length, model_->description(), device)},
        0,
        at::kLong);
    std::ranges::copy(piece.text, row.mutable_data_ptr<std::int64_t>());
    models::ModelInput input{.tokens = row.to(device)};
    if (piece.scored == 1) {
      input.logits_at =
          at::tensor(std::vector<std::int64_t>{length - 1}).to(device);
    }
    at::Tensor logits = model_->forward(input).logits;
    if (piece.scored > 1) {
      logits = logits.narrow(1, length - piece.scored, piece.scored);
    }
    logits =
        logits.to(at::TensorOptions(at::kCPU).dtype(at::kFloat)).contiguous();
    const float* first = logits.const_data_ptr<float>();
    scores_.insert(scores_.end(), first, first + logits.numel());
  }
  return scores_;
}

} // namespace cairn::generate
