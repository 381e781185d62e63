#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/model/description.h>
#include <cairn/nn/checkpoint_options.h>
#include <cairn/nn/context_parallel.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::models {

using model::ModelDescription;

/// A batch, as every model takes it. Undefined tensors say nothing; a model
/// leaves alone what it has no use for.
struct ModelInput {
  at::Tensor tokens;        ///< [batch, sequence]; of T5: the encoder's
  at::Tensor positions{};   ///< [batch, sequence]; else 0, 1, …
  at::Tensor token_types{}; ///< [batch, sequence]; else 0
  /// [batch, sequence]: not 0 where there is text that may be seen; or
  /// [batch, sequence, sequence], bool: whom each token sees, all told.
  at::Tensor mask{};
  at::Tensor decoder_tokens{}; ///< T5
  at::Tensor decoder_mask{};   ///< [batch, sequence], T5
  /// What the model is to say at each token (for left-to-right models the next
  /// one). Below 0: nothing is asked there.
  at::Tensor labels{};
  at::Tensor loss_mask{};     ///< shaped as labels: how much each one counts
  at::Tensor next_sentence{}; ///< [batch], BERT: 1 where it is not the next
  /// [dropping layers, batch, kept], GPT and Llama: which tokens each of these
  /// layers computes, ascending; else all.
  at::Tensor kept{};
  /// [batch], GPT and Llama without labels: the token of each row whose logits
  /// are wanted, [batch, 1, vocabulary]; else those of all.
  at::Tensor logits_at{};
  bool want_logits = false; ///< also where there are labels
  int sequence_ranks = 1;   ///< that have parts of it; see own_sequence()
};

struct ModelOutput {
  at::Tensor loss; ///< with labels: the mean over what is asked, and the sum of
  /// these, under Megatron's names ("lm loss", "sop loss", "moe loss").
  std::vector<std::pair<std::string, at::Tensor>> losses{};
  at::Tensor logits{}; ///< [batch, sequence, vocabulary], without padding
  at::Tensor next_sentence_logits{}; ///< [batch, 2]
};

struct ModelOptions {
  distributed::ProcessGroup tensor_group{}; ///< shares every layer
  /// Shares out the experts; its ranks have other batches of the same size.
  distributed::ProcessGroup expert_group{};
  bool sequence_parallel = false;
  /// Ranks that share every sequence; each gives the model own_sequence() of
  /// its batches. GPT and Llama.
  nn::ContextParallel sequence{};
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  /// Of the initial weights, which depend on nothing else; none: parameters are
  /// left unset, for weights that are loaded.
  std::optional<std::uint64_t> seed = 1234;
  double initial_std = 0.02; ///< --init-method-std
  /// Blocks are computed again in backward, that many at a time.
  std::optional<nn::CheckpointOptions> recompute{};
  std::int64_t recompute_layers = 1;
  /// That compute ModelInput::kept, in its order; of models without a mask, on
  /// ranks that have whole sequences.
  std::vector<std::int64_t> dropping_layers{};
};

/// A model that is made from its description, so that every checkpoint that
/// Cairn reads becomes one. Its parameters have the names of
/// model/parameters.h; which slices of them a rank holds,
/// nn/parameter_slices.h tells.
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

/// This rank's part of a batch whose sequences ranks share: its tokens with
/// their labels and positions. Throws ConfigError for what cannot be shared.
ModelInput own_sequence(
    const ModelInput& whole,
    const nn::ContextParallel& sequence);

/// GPT, Llama, BERT, RoBERTa or T5. Throws ConfigError for what the ranks
/// cannot share, CheckpointError for what no model can be.
std::shared_ptr<Transformer> make_model(
    const ModelDescription& description,
    const ModelOptions& options = {});

} // namespace cairn::models
