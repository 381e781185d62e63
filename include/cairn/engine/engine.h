#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/checkpoints/slices.h>
#include <cairn/engine/batch_passes.h>
#include <cairn/engine/engine_status.h>
#include <cairn/engine/model.h>
#include <cairn/engine/saving.h>
#include <cairn/nn/checkpoint.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::inline engine {

struct Core;
class GatheredParameters;

/// Trains a module: what cairn::initialize returns. A handle, cheap to copy.
///
///   auto loss = cross_entropy(engine(batch.input), batch.target);
///   engine.backward(loss);
///   engine.step();
///
/// or, for a whole update at once:
///
///   engine.train_batch([&] {
///     const auto batch = next();
///     return cross_entropy(engine(batch.input), batch.target);
///   });
///
/// Every rank makes the same calls. Called out of order (step before backward,
/// backward twice) it throws UsageError and says what is missing.
class Engine {
 public:
  explicit Engine(std::shared_ptr<Core> core);

  /// The model's forward. Floating-point tensors come in the type that the
  /// model computes in, on its device; integers are moved, never cast.
  template <typename Result = at::Tensor, typename... Inputs>
  Result operator()(Inputs&&... inputs) {
    return forward<Result>(std::forward<Inputs>(inputs)...);
  }
  template <typename Result = at::Tensor, typename... Inputs>
  Result forward(Inputs&&... inputs) {
    begin_forward();
    try {
      Result result = model().template forward<Result>(
          prepared(std::forward<Inputs>(inputs))...);
      end_forward();
      return result;
    } catch (...) {
      fail_forward();
    }
  }

  /// Scales the loss, divides it by the accumulation steps, and runs autograd.
  /// At the end of an accumulation gradients are averaged over the ranks.
  void backward(const at::Tensor& loss);
  /// Counts a micro batch. At the end of an accumulation it clips, updates,
  /// forgets the gradients and moves the schedule on, unless they overflowed.
  void step();
  /// True when the next step() updates the weights.
  bool is_gradient_accumulation_boundary() const;

  /// Runs all micro batches of an update, and the update: forward, backward and
  /// step of each, or with a pipeline::PipelineModule the passes of all stages.
  /// Returns the mean loss of this rank's micro batches, on every stage.
  at::Tensor train_batch(const BatchPasses& passes);
  /// Computes the loss alone, without gradients and with the model in its
  /// evaluation mode, of so many micro batches; unset: as many as in training.
  at::Tensor eval_batch(
      const BatchPasses& passes,
      std::optional<std::int64_t> micro_batches = std::nullopt);
  /// Parts of the mean loss of the last train_batch() or eval_batch(): the ones
  /// that the passes gave, or a PipelineModule's loss_parts.
  LossParts loss_parts() const;

  /// Passes within the scope add gradients up without averaging them; not with
  /// gradients that are partitioned (ZeRO stages 2 and 3).
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(std::shared_ptr<Core> core);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    std::shared_ptr<Core> core_;
  };
  NoSync no_sync();

  void train(bool on = true);
  void eval() { train(false); }

  /// Batch sizes, ZeRO stage and precision, as configured.
  EngineSettings settings() const;
  /// Steps, samples, learning rates and the gradient's norm so far.
  EngineProgress progress() const;
  int rank() const;
  int local_rank() const;
  at::Device device() const;
  torch::nn::Module& module();

  /// Makes the next updates take so many samples, over all ranks, by
  /// accumulating more or fewer micro batches. Called between updates.
  void set_train_batch_size(std::int64_t samples);
  /// Tokens that samples of this step are to be cut to, with
  /// `curriculum_learning`. Unset without it, and while evaluating.
  std::optional<std::int64_t> curriculum_seqlen() const;

  /// Norm of the last update's gradient, over all parameters and ranks, before
  /// clipping. Unset before the first update. On a GPU this waits for all that
  /// is under way. The update itself does not wait in bf16 or fp32, on one GPU
  /// or, with InitializeOptions::same_use_in_all_passes, on several.
  std::optional<double> gradient_norm() const;
  /// Makes updates count the elements of the gradient that are zero, which
  /// takes a look at each. See progress().
  void count_zeros_in_gradient(bool on = true);
  /// Norm of all parameters, over all ranks, which all call it.
  double parameter_norm();
  /// Sums over the fp32 weights ("weight") and over states of the optimizer
  /// ("exp_avg"), by these names, over all ranks, which all call it. Zero for
  /// states that it does not have.
  std::vector<ElementSums> state_sums(const std::vector<std::string>& names);

  /// Takes what this rank has of a parameter; the ranks together give every
  /// element of the model once.
  using VisitSlice = std::function<void(const checkpoints::TensorSlice& slice)>;
  /// Makes every update, within step() or train_batch(), first show the
  /// gradients: averaged over the ranks, without the loss scale, not clipped.
  void watch_gradients(VisitSlice watch);
  /// The weights, as exact as the optimizer has them. All ranks call it.
  void visit_weights(const VisitSlice& visit);

  /// Saves everything that training goes on from, under folder/tag; without a
  /// tag under global_stepN. All ranks call it. Returns when the values are
  /// copied, or with `.wait` when all is on the disk. The file `latest` in the
  /// folder names the last one that is complete; what was saved before is never
  /// touched, whatever goes wrong.
  void save_checkpoint(
      const std::filesystem::path& folder,
      const std::optional<std::string>& tag = std::nullopt,
      const ClientState& client_state = {},
      const SaveOptions& options = {});
  /// Waits for a save under way; throws CheckpointError if the last one failed.
  void finish_checkpoint();
  /// Goes on from there, whatever the number of ranks, the ZeRO stage and the
  /// precision it was saved at. Without a tag from `latest`, or if that is
  /// damaged from the newest that is whole. Returns where that was, none if
  /// there is nothing, and what the program had given.
  std::pair<std::optional<std::filesystem::path>, ClientState> load_checkpoint(
      const std::filesystem::path& folder,
      const std::optional<std::string>& tag = std::nullopt,
      const LoadOptions& options = {});

  /// Goes on from a state that is in no checkpoint of Cairn's: tensors under
  /// the names of docs/checkpoint-format.md ("weight/fc1.weight",
  /// "exp_avg/fc1.weight"), and the manifest's "state" as JSON. All ranks call
  /// it; each reads its part. Returns the state's "client".
  ClientState restore_state(
      const checkpoints::Source& tensors,
      const std::string& numbers,
      const LoadOptions& options = {});

  /// How activations are kept, as `activation_checkpointing` says: for the
  /// model's own calls of cairn::checkpoint().
  const nn::CheckpointOptions& checkpoint_options() const;
  /// function(inputs…), computed again in backward; see nn/checkpoint.h.
  template <typename Function, typename... Inputs>
  auto checkpoint(Function&& function, Inputs&&... inputs) const {
    return nn::checkpoint(
        checkpoint_options(),
        std::forward<Function>(function),
        std::forward<Inputs>(inputs)...);
  }

  /// The memory that this rank holds, by kind and device.
  MemoryReport memory_report() const;
  /// The parameter's values, whole, on every rank; all ranks call it.
  at::Tensor full_parameter(const std::string& name);

 private:
  void begin_forward();
  void end_forward();
  [[noreturn]] void fail_forward();
  Model& model();
  at::Tensor prepared_tensor(const at::Tensor& input) const;
  template <typename Input>
  decltype(auto) prepared(Input&& input) const {
    if constexpr (std::is_convertible_v<Input, const at::Tensor&>) {
      return prepared_tensor(input);
    } else {
      return std::forward<Input>(input);
    }
  }

  friend class GatheredParameters;
  std::shared_ptr<Core> core_;
};

} // namespace cairn::engine
