#pragma once

#include <cairn/generate/shared_model.h>
#include <cairn/models/transformer.h>

#include <memory>
#include <variant>

namespace cairn::generate {

class Decoder;
struct TextBatchOptions; // text_batch.h has them

/// The model that texts are continued with: one in this process, or one that
/// the ranks of a job share.
class TextModel {
 public:
  /// The whole model. It is put into eval(), and its weights must not change.
  TextModel(std::shared_ptr<models::Transformer> whole);
  /// Used on rank 0.
  TextModel(SharedModel shared);

  const models::ModelDescription& description() const;

  /// True when ranks share the model and one of them was lost.
  bool has_failed() const;
  /// Throws the CommError that says why.
  void throw_if_failed() const;

  /// The fastest decoder that the model and the options allow.
  std::unique_ptr<Decoder> make_decoder(const TextBatchOptions& options) const;

 private:
  std::variant<std::shared_ptr<models::Transformer>, SharedModel> model_;
};

} // namespace cairn::generate
