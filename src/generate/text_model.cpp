#include <cairn/generate/text_model.h>

#include "generate/leading_decoder.h"
#include "generate/make_decoder.h"

#include <utility>

namespace cairn::generate {

TextModel::TextModel(std::shared_ptr<models::Transformer> whole)
    : model_(std::move(whole)) {
  std::get<0>(model_)->eval();
}

TextModel::TextModel(SharedModel shared) : model_(std::move(shared)) {}

const models::ModelDescription& TextModel::description() const {
  return std::visit(
      [](const auto& model) -> const models::ModelDescription& {
        if constexpr (requires { model->description(); }) {
          return model->description();
        } else {
          return model.description();
        }
      },
      model_);
}

bool TextModel::has_failed() const {
  const auto* shared = std::get_if<SharedModel>(&model_);
  return shared != nullptr && shared->has_failed();
}

void TextModel::throw_if_failed() const {
  if (const auto* shared = std::get_if<SharedModel>(&model_)) {
    shared->throw_if_failed();
  }
}

std::unique_ptr<Decoder> TextModel::make_decoder(
    const TextBatchOptions& options) const {
  if (const auto* shared = std::get_if<SharedModel>(&model_)) {
    return std::make_unique<SharedModel::Leading>(shared->core_, options);
  }
  return generate::make_decoder(std::get<0>(model_), options);
}

} // namespace cairn::generate
