#pragma once

#include "bert/options.h"

#include <ATen/core/Tensor.h>
#include <cairn/data/mlm_dataset.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/models/transformer.h>
#include <cairn/text/tokenizer.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace bert {

/// Lines of a WikiText file with masked words: of 15% of the tokens, exactly
/// so many, 80% become <mask>, 10% another token, and 10% stay. Every pass over
/// the file masks others.
class MaskedText {
 public:
  MaskedText(const Options& options, const cairn::distributed::World& world);

  /// A RoBERTa of the options' size, for this text's vocabulary.
  cairn::models::ModelDescription model() const;
  /// This rank's batch of a step, as wide as its longest line.
  cairn::models::ModelInput batch(std::int64_t step) const;

 private:
  Options options_;
  cairn::distributed::World world_;
  std::shared_ptr<const cairn::text::Tokenizer> tokenizer_;
  std::optional<cairn::data::MlmDataset> lines_;
};

} // namespace bert
