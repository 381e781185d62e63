#include "generate/whole_text_decoder.h"

#include "generate/room_at_experts.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace cairn::generate {
namespace {

/// The tokens that the model computes for a piece: those of the piece and
/// before it. Where LongRoPE looks at the length of a text, they are all tokens
/// of a long one.
std::span<const std::int64_t> computed_tokens(
    const Piece& piece,
    const models::ModelDescription& model) {
  const auto most = model::longest_short_text(model);
  return most && std::ssize(piece.all) > *most ? piece.all : piece.text;
}

/// Length of the row that the model computes for texts of up to `length`
/// tokens. A GPU prepares its kernels anew for every new length, which takes
/// longer than computing a few more tokens.
std::int64_t row_length(
    std::int64_t length,
    const models::ModelDescription& model,
    at::Device device) {
  constexpr std::int64_t step = 64;
  const std::int64_t short_text =
      model::longest_short_text(model).value_or(model.positions);
  const std::int64_t most = length <= short_text ? short_text : model.positions;
  return device.is_cuda() ? std::min(most, (length + step - 1) / step * step)
                          : length;
}

/// The model's input for some texts, shorter ones padded at the end, where
/// nothing looks.
models::ModelInput input_of(
    std::span<const Piece> pieces,
    const models::ModelDescription& model,
    at::Device device) {
  std::int64_t longest = 0;
  std::vector<std::int64_t> last;
  for (const Piece& piece : pieces) {
    longest = std::max(longest, std::ssize(computed_tokens(piece, model)));
    last.push_back(std::ssize(piece.text) - 1);
  }
  at::Tensor rows = at::full(
      {std::ssize(pieces), row_length(longest, model, device)},
      0,
      at::kLong);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    std::ranges::copy(
        computed_tokens(pieces[i], model),
        rows[static_cast<std::int64_t>(i)].mutable_data_ptr<std::int64_t>());
  }
  models::ModelInput input{.tokens = rows.to(device)};
  if (pieces.size() > 1 || pieces[0].scored == 1) {
    input.logits_at = at::tensor(last).to(device);
  }
  return input;
}

/// The number of first pieces that are computed together: on a GPU, those of
/// which one row of scores is wanted. With LongRoPE, long texts and short ones
/// do not mix.
std::size_t together(
    std::span<const Piece> pieces,
    const models::ModelDescription& model,
    at::Device device) {
  if (!device.is_cuda()) {
    return 1;
  }
  const std::int64_t short_text =
      model::longest_short_text(model).value_or(model.positions);
  const auto is_long = [&](const Piece& piece) {
    return std::ssize(piece.all) > short_text;
  };
  std::size_t count = 0;
  while (count < pieces.size() && pieces[count].scored == 1 &&
         is_long(pieces[count]) == is_long(pieces[0])) {
    ++count;
  }
  return std::max<std::size_t>(count, 1);
}

} // namespace

WholeTextDecoder::WholeTextDecoder(std::shared_ptr<models::Transformer> model)
    : model_(std::move(model)) {
  for (const auto& module : model_->modules()) {
    if (auto* mixture = dynamic_cast<nn::Mixture*>(module.get())) {
      mixtures_.push_back(mixture);
    }
  }
}

std::int64_t WholeTextDecoder::longest() const {
  return model_->description().positions;
}

std::span<const float> WholeTextDecoder::compute(
    std::span<const Piece> pieces) {
  const at::NoGradGuard no_grad;
  const RoomAtExperts room(mixtures_);
  const at::Device device = model_->parameters().front().device();
  const models::ModelDescription& model = model_->description();
  std::vector<Piece> scored;
  std::ranges::copy_if(pieces, std::back_inserter(scored), [](const Piece& p) {
    return p.scored > 0;
  });
  scores_.clear();
  for (std::size_t first = 0; first < scored.size();) {
    const auto rest = std::span(scored).subspan(first);
    const auto some = rest.first(together(rest, model, device));
    at::Tensor logits = model_->forward(input_of(some, model, device)).logits;
    if (some[0].scored > 1) {
      logits = logits.narrow(
          1,
          std::ssize(some[0].text) - some[0].scored,
          some[0].scored);
    }
    logits =
        logits.to(at::TensorOptions(at::kCPU).dtype(at::kFloat)).contiguous();
    const float* data = logits.const_data_ptr<float>();
    scores_.insert(scores_.end(), data, data + logits.numel());
    first += some.size();
  }
  return scores_;
}

} // namespace cairn::generate
