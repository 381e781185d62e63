#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/model/description.h>
#include <cairn/nn/checkpoint.h>
#include <cairn/nn/context_parallel.h>
#include <cairn/nn/layer.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::models {

using model::ModelDescription;

/// A batch, as every model takes it. A tensor may be undefined; a model ignores
/// the tensors that it has no use for.
struct ModelInput {
  at::Tensor tokens;        ///< [batch, sequence]; T5: the encoder's tokens
  at::Tensor positions{};   ///< [batch, sequence]; default: 0, 1, …
  at::Tensor token_types{}; ///< [batch, sequence]; default: 0
  /// [batch, sequence]: not 0 where there is text that may be seen; or [batch,
  /// sequence, sequence], bool: which tokens each token sees.
  at::Tensor mask{};
  /// [batch, sequence], GPT and Llama on ranks that pass keys round a ring, in
  /// place of a mask: the position of the first token of each token's document.
  at::Tensor first_seen{};
  at::Tensor decoder_tokens{}; ///< T5
  at::Tensor decoder_mask{};   ///< [batch, sequence], T5
  /// The right answer for each token (for left-to-right models the next token).
  /// A label below 0 is not counted.
  at::Tensor labels{};
  at::Tensor loss_mask{}; ///< shaped as labels: the weight of each one
  /// BERT on a GPU: no row has more labels that count than this, so the others
  /// are not computed; 0: not known.
  std::int64_t most_labels = 0;
  at::Tensor next_sentence{}; ///< [batch], BERT: 1 where B does not follow A
  /// [dropping layers, batch, kept], GPT and Llama: the tokens that each of
  /// these layers computes, ascending; default: all.
  at::Tensor kept{};
  /// [batch]: the numbers of the samples in the run (nn::sample_numbers()),
  /// below 2^48. They decide, with ModelOptions::dropout_seed, what dropout
  /// drops; default: they are drawn.
  at::Tensor samples{};
  /// [batch], GPT and Llama without labels: the one token of each row to give
  /// logits for, [batch, 1, vocabulary]; default: all tokens.
  at::Tensor logits_at{};
  bool want_logits = false; ///< also when there are labels
  int sequence_ranks = 1;   ///< ranks that share a sequence; see own_sequence()
};

struct ModelOutput {
  at::Tensor loss; ///< with labels: the sum of `losses`
  /// Mean losses and their names, which are Megatron's names ("lm loss",
  /// "sop loss", "moe loss").
  std::vector<std::pair<std::string, at::Tensor>> losses{};
  at::Tensor logits{}; ///< [batch, sequence, vocabulary], no padding
  at::Tensor next_sentence_logits{}; ///< [batch, 2]
};

struct ModelOptions {
  distributed::ProcessGroup tensor_group{}; ///< its ranks split every layer
  /// The ranks that split the experts; they have other batches of the same
  /// size.
  distributed::ProcessGroup expert_group{};
  bool sequence_parallel = false;
  /// With `sequence_parallel`: tokens travel between the ranks of
  /// `tensor_group` while blocks multiply other tokens.
  bool overlap_tokens = false;
  /// The ranks that share every sequence; each gives the model own_sequence()
  /// of its batches. GPT and Llama.
  nn::ContextParallel sequence{};
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  /// Products of the blocks' linear layers in fp8, except for those of the
  /// first and last blocks; experts have none.
  std::optional<nn::Fp8Format> fp8{};
  std::int64_t first_blocks_without_fp8 = 0;
  std::int64_t last_blocks_without_fp8 = 0;
  /// The initial weights depend on this seed alone. Without one, parameters are
  /// left unset, for weights that are loaded.
  std::optional<std::uint64_t> seed = 1234;
  double initial_std = 0.02; ///< --init-method-std
  /// The model is built without memory for its parameters, and notes their
  /// initial values here for initialize(). Unset: they have memory.
  std::shared_ptr<nn::LaterValues> later{};
  std::uint64_t dropout_seed = 1234;
  /// Blocks are computed again in backward, `recompute_layers` at a time.
  std::optional<nn::CheckpointOptions> recompute{};
  std::int64_t recompute_layers = 1;
  /// Set: only so many blocks, the first ones.
  std::optional<std::int64_t> recomputed_blocks{};
  /// Only the MLPs of blocks, or their mixtures of experts, are computed again.
  std::optional<nn::CheckpointOptions> recompute_mlps{};
  std::optional<nn::CheckpointOptions> recompute_mixtures{};
  /// The outputs of the blocks' norms, or of the experts' activations, are
  /// computed again.
  bool recompute_norms = false;
  bool recompute_expert_activations = false;
  /// The layers that compute ModelInput::kept only, in its order. For models
  /// without a mask, on ranks that have whole sequences.
  std::vector<std::int64_t> dropping_layers{};
};

/// A model that is made from its description, so that every checkpoint that
/// Cairn reads becomes one. Its parameters have the names of
/// model/parameters.h; nn/parameter_slices.h tells which slices of them a rank
/// holds.
class Transformer : public torch::nn::Module {
 public:
  explicit Transformer(ModelDescription description)
      : torch::nn::Module("Transformer"),
        description_(std::move(description)) {}

  virtual ModelOutput forward(const ModelInput& input) = 0;
  const ModelDescription& description() const { return description_; }

 private:
  ModelDescription description_;
};

/// This rank's part of a batch whose sequences are shared by ranks: its tokens
/// with their labels and positions. Throws ConfigError for a batch that cannot
/// be shared.
ModelInput own_sequence(
    const ModelInput& whole,
    const nn::ContextParallel& sequence);

/// Makes a GPT, Llama, BERT, RoBERTa or T5. Throws ConfigError for a model that
/// the ranks cannot share, CheckpointError for one that cannot exist.
std::shared_ptr<Transformer> make_model(
    const ModelDescription& description,
    const ModelOptions& options = {});

} // namespace cairn::models
