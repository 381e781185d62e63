#pragma once

#include <cairn/nn/checkpoint.h>
#include <cairn/nn/parameter_slices.h>
#include <cairn/pipeline/layer_spec.h>
#include <cairn/pipeline/partition.h>
#include <torch/nn/module.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::pipeline {

/// The loss function of the last stage, from its outputs and the labels: a
/// tensor of one element, or several (see PipelineModuleOptions::loss_parts).
/// It takes (output, label), any number of tensors in that order, or (outputs,
/// labels) as two vectors.
class Loss {
 public:
  Loss() = default; ///< the last layer gives the loss itself
  template <typename Function>
  requires(!std::same_as<Function, Loss>) Loss(Function function) {
    if constexpr (std::is_invocable_v<
                      Function&,
                      const Tensors&,
                      const Tensors&>) {
      call_ = [function = std::move(function)](
                  const Tensors& outputs,
                  const Tensors& labels) mutable {
        auto result = function(outputs, labels);
        return nn::tensors_in(result);
      };
    } else {
      call_ = [function = std::move(function)](
                  const Tensors& outputs,
                  const Tensors& labels) mutable {
        Tensors all = outputs;
        all.insert(all.end(), labels.begin(), labels.end());
        return call_with_tensors(function, all);
      };
    }
  }
  explicit operator bool() const { return static_cast<bool>(call_); }
  Tensors operator()(const Tensors& outputs, const Tensors& labels) const {
    return call_(outputs, labels);
  }

 private:
  std::function<Tensors(const Tensors&, const Tensors&)> call_;
};

/// The times at which a stage tells the next one the shapes and types of its
/// activations.
enum class Announce {
  /// A word with every message says whether shapes and types are as before. On
  /// a GPU the receiver has to wait for that word.
  each_message,
  /// The first message of a batch has that word. A change within a batch is an
  /// error.
  each_batch,
  /// Shapes and types come with the first message. A later change is an error.
  once
};

struct PipelineModuleOptions {
  int stage = 0; ///< stage of this process: pipeline.rank()
  int stages = 1;
  /// Number of chunks of the model on each stage, for the interleaved schedule.
  /// Chunk c of stage s is part c x stages + s of the whole.
  int chunks = 1;
  PartitionMethod partition{};
  Loss loss{};
  /// Names of the tensors that the loss function gives after the loss, such as
  /// the terms of its sum: see Executor::loss_parts().
  std::vector<std::string> loss_parts{};
  Announce announce = Announce::each_message;
  /// Number of layers between kept activations; the rest is computed again in
  /// backward. 0: all are kept.
  std::int64_t activation_checkpoint_interval = 0;
  /// Set: of the layers of the type "block", only so many of each chunk are
  /// computed again, one at a time, and no others.
  std::optional<std::int64_t> checkpointed_blocks{};
  nn::CheckpointOptions checkpoint{};
  /// Layer n is built with the random numbers of seed + n, so that every number
  /// of stages starts from the same weights. Unset: the seed of
  /// torch::manual_seed().
  std::optional<std::uint64_t> seed{};
};

/// The layers of one stage, as a module. Its parameters have the names that
/// they have in the whole model.
///
///   const auto pipeline = mesh.along(Axis::pipeline);
///   auto net = std::make_shared<PipelineModule>(
///       layers,
///       {.stage = pipeline.rank(), .stages = pipeline.size(), .loss = …});
class PipelineModule : public torch::nn::Module, public nn::HoldsSlices {
 public:
  /// Throws UsageError.
  explicit PipelineModule(
      std::vector<LayerSpec> layers,
      PipelineModuleOptions options = {});

  /// Runs this stage's part, or one chunk of it.
  Tensors forward(const Tensors& inputs, int chunk = 0);
  /// The loss and its parts. Only on the last stage.
  Tensors losses(const Tensors& outputs, const Tensors& labels) const;
  at::Tensor loss(const Tensors& outputs, const Tensors& labels) const {
    return losses(outputs, labels).front();
  }
  const std::vector<std::string>& loss_parts() const {
    return options_.loss_parts;
  }

  int stage() const { return options_.stage; }
  int stages() const { return options_.stages; }
  bool is_first() const { return stage() == 0; }
  bool is_last() const { return stage() + 1 == stages(); }
  int chunks() const { return options_.chunks; }
  Announce announce() const { return options_.announce; }
  /// True when a chunk is the beginning (or the end) of the model.
  bool is_first(int chunk) const { return is_first() && chunk == 0; }
  bool is_last(int chunk) const { return is_last() && chunk + 1 == chunks(); }
  /// Limits of the parts: part n of the model (stage n, without chunks) has the
  /// layers from cuts()[n] up to cuts()[n + 1].
  const std::vector<int>& cuts() const { return cuts_; }

  /// A module that several stages use. It belongs to the first of those stages:
  /// only there its parameters are the model's, so that they are updated,
  /// counted and saved once. The other stages have copies, which the executor
  /// keeps equal.
  struct Tie {
    std::string key;
    std::vector<int> stages; ///< ascending
    /// The module or its copy; null on stages that do not use it.
    std::shared_ptr<torch::nn::Module> module;
    /// The module's own parameters, without those of nested layers: layers
    /// named "embedding" and "embedding.word" are nested.
    std::vector<at::Tensor> parameters;

    int owner() const { return stages.front(); }
  };
  /// Shared modules, in the same order on all stages, owners ascending.
  const std::vector<Tie>& ties() const { return ties_; }

  /// Slices of the layers whose parameters are directly in this module.
  std::vector<nn::ParameterSlice> parameter_slices() const override;
  std::vector<std::string> partial_gradients() const override;

  void train(bool on = true) override;
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false)
      override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;

 private:
  struct Layer {
    std::shared_ptr<torch::nn::Module> module; ///< null for a function
    LayerSpec::Call call;
    bool is_block = false;
  };

  void build(const std::vector<LayerSpec>& specs);
  Tensors run(std::size_t begin, std::size_t end, Tensors x) const;
  Tensors run_again(std::size_t begin, std::size_t end, const Tensors& x) const;
  template <typename Visit>
  void for_each_copy(const Visit& visit) const;

  PipelineModuleOptions options_;
  std::vector<int> cuts_;
  std::vector<Layer> layers_; ///< layers of all chunks
  /// The beginning of each chunk in layers_, and the end of layers_.
  std::vector<std::size_t> begins_;
  /// Modules in layers_ with an empty name.
  std::vector<std::shared_ptr<torch::nn::Module>> nameless_;
  std::vector<Tie> ties_;
};

} // namespace cairn::pipeline
