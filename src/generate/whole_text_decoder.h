#pragma once

#include "generate/decoder.h"

#include <cairn/models/transformer.h>
#include <cairn/nn/mixture.h>

#include <memory>
#include <vector>

namespace cairn::generate {

/// Computes a text as a whole for each of its tokens, and remembers nothing. On
/// the CPU texts are computed one at a time, so that none depends on another.
/// Every token finds room at its experts. Serves every model that goes from
/// left to right, on any device.
class WholeTextDecoder : public Decoder {
 public:
  explicit WholeTextDecoder(std::shared_ptr<models::Transformer> model);

  std::int64_t longest() const override;
  bool reserve(std::size_t, std::int64_t) override { return true; }
  void release(std::size_t) override {}
  bool copy(std::size_t, std::size_t, std::int64_t) override { return true; }
  std::span<const float> compute(std::span<const Piece> pieces) override;

 private:
  std::shared_ptr<models::Transformer> model_;
  std::vector<nn::Mixture*> mixtures_; ///< of the model
  std::vector<float> scores_;
};

} // namespace cairn::generate
