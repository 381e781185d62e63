#pragma once

#include "nn/internal/deferred_gradients.h"
#include "pipeline/channel.h"
#include "pipeline/tied_weights.h"

#include <cairn/pipeline/executor.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::pipeline {

/// The neighbours of a chunk of a stage.
struct Links {
  std::optional<Channel> previous;
  std::optional<Channel> next;
};

/// The way of one stage through the instructions for one batch.
class BatchRun {
 public:
  /// The objects that the run works with.
  struct Parts {
    PipelineModule& module;
    const Hooks& hooks;
    at::Device device;
    std::vector<Links>& links; ///< one for each chunk
    TiedWeights& ties;
  };
  enum class Wanted { losses, outputs };

  BatchRun(
      Parts parts,
      const Schedule& schedule,
      const NextMicroBatch& next,
      Wanted wanted);

  void run();

  /// Means of the loss and of its parts on the last stage; zeros elsewhere.
  at::Tensor losses() const;
  std::vector<Tensors> take_outputs() { return std::move(outputs_); }
  int most_live_activations() const { return most_live_; }

 private:
  /// The tensors of one micro batch in one chunk.
  struct Buffer {
    std::optional<Arriving> activation;
    Tensors inputs;
    Tensors labels;
    Tensors outputs; ///< until they are sent
    Layouts gradients_expected;
    /// Edges where backward begins. Not the outputs, whose values are not
    /// needed.
    std::vector<torch::autograd::Edge> roots;
    std::optional<Arriving> gradient;
    at::Tensor loss;
    Tensors input_gradients; ///< until they are sent
    /// Gradients of weights that were put off, if the schedule splits backward.
    std::shared_ptr<nn::DeferredGradients> deferred;
  };

  void execute(const Instruction& instruction);
  void load(Buffer& buffer, int chunk);
  void forward(Buffer& buffer, int chunk);
  void send_activation(Buffer& buffer, Channel& next);
  void backward(Buffer& buffer, int chunk);
  void send_gradient(Buffer& buffer, Channel& previous);
  void weight_gradients(Buffer& buffer);
  /// The beginning of a pass that adds to gradients.
  struct Roots {
    std::vector<torch::autograd::Edge> edges;
    Tensors gradients;
  };
  void run_backward(Roots roots, const Hooks::Pass& before);
  void keep(const Tensors& losses);

  Parts parts_;
  const Schedule& schedule_;
  const NextMicroBatch& next_;
  const Wanted wanted_;
  std::vector<Buffer> buffers_;
  std::vector<std::pair<at::Tensor, at::Tensor>> tied_gradients_;
  at::Tensor loss_sums_; ///< sums of the loss and of its parts
  std::vector<Tensors> outputs_;
  const int passes_; ///< passes that add to gradients
  int passes_done_ = 0;
  int live_ = 0;
  int most_live_ = 0;
};

} // namespace cairn::pipeline
