#pragma once

#include "generate/decoder_weights.h"
#include "generate/expert_choices.h"
#include "generate/row_operations.h"

#include <cstdint>
#include <vector>

namespace cairn::generate {

/// Computes MLPs and mixtures of experts for rows of numbers, on the CPU. An
/// expert computes the rows that it got and no others; all of them find room.
/// What a row becomes does not depend on the rows beside it.
class MlpRows {
 public:
  /// The operations outlive this.
  explicit MlpRows(const RowOperations& operations)
      : operations_(&operations) {}

  /// Writes what becomes of the rows, or adds it to y. Both are [rows, hidden].
  void compute(
      const BlockMlp& mlp,
      const float* x,
      std::int64_t rows,
      float* y,
      bool adds);

 private:
  void compute_mlp(
      const MlpWeights& mlp,
      const float* x,
      std::int64_t rows,
      float* y,
      bool adds);
  void compute_mixture(
      const MixtureWeights& mixture,
      const float* x,
      std::int64_t rows,
      float* y,
      bool adds);

  void ask_experts(
      const MixtureWeights& mixture,
      const ExpertChoices& choices,
      const float* x);
  void mix(
      const MixtureWeights& mixture,
      const ExpertChoices& choices,
      std::int64_t rows,
      float* y,
      bool adds);

  const RowOperations* operations_;
  std::vector<float> gate_;    ///< [rows, ffn]
  std::vector<float> up_;      ///< [rows, ffn]
  std::vector<float> scores_;  ///< [rows, experts]
  std::vector<float> given_;   ///< [choices, hidden], sorted by expert
  std::vector<float> answers_; ///< [choices, hidden]
  std::vector<float> beside_;  ///< [rows, hidden], of the residual MLP
  std::vector<float> parts_;   ///< [rows, 2], of experts and residual MLP
};

} // namespace cairn::generate
