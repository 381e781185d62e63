#pragma once

#include "engine/activation_meter.h"
#include "engine/checkpoint_writer.h"
#include "engine/model_parameters.h"
#include "engine/parameter_share.h"
#include "engine/precision.h"
#include "engine/snapshot.h"
#include "engine/step_log.h"
#include "engine/step_monitor.h"
#include "zero/flat_parameters.h"
#include "zero/gradient_reducer.h"
#include "zero/nvme_tier.h"
#include "zero/parameter_gatherer.h"
#include "zero/rank_groups.h"
#include "zero/sharded_optimizer.h"

#include <cairn/base/log.h>
#include <cairn/checkpoint/model_description.h>
#include <cairn/checkpoint/slices.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/client_state.h>
#include <cairn/engine/element_sums.h>
#include <cairn/engine/memory_report.h>
#include <cairn/engine/model.h>
#include <cairn/engine/parameter_group.h>
#include <cairn/engine/save_options.h>
#include <cairn/engine/training_loader.h>
#include <cairn/nn/checkpoint_options.h>
#include <cairn/optim/loss_scaler.h>
#include <cairn/optim/rule.h>
#include <cairn/optim/schedule.h>
#include <cairn/pipeline/executor.h>
#include <cairn/zero/layout.h>
#include <cairn/zero/policy.h>
#include <torch/optim/optimizer.h>
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::engine {

struct CoreOptions {
  config::Config config;
  Model model;
  std::vector<ParameterGroup> groups; ///< empty: all parameters, one group
  std::shared_ptr<torch::optim::Optimizer> client_optimizer;
  std::shared_ptr<const optim::Schedule> client_schedule;
  bool schedule_counts_samples = false;
  distributed::World world;
  /// Unset: every rank of the world has all of the model.
  std::optional<distributed::ProcessMesh> mesh;
  std::vector<std::string> keys_acted_on;  ///< by the program
  std::shared_ptr<monitor::Timers> timers; ///< unset: its own
  std::optional<checkpoints::ModelDescription> description;
  Logger logger;
};

/// The engine without its template face: composes precision, ZeRO, optimizer,
/// loss scaler and schedule, and keeps count.
class Core {
 public:
  explicit Core(CoreOptions options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  Model& model() { return model_; }
  void begin_forward();
  void end_forward();
  /// While its exception is handled; as fail().
  [[noreturn]] void fail_forward();
  at::Tensor prepared(const at::Tensor& input) const;

  void backward(const at::Tensor& loss);
  void step();
  /// Instead of the three, where the model is cut into pipeline stages.
  at::Tensor train_batch(const pipeline::NextMicroBatch& next);
  at::Tensor eval_batch(
      const pipeline::NextMicroBatch& next,
      std::int64_t micro_batches);
  std::vector<std::pair<std::string, at::Tensor>> loss_parts() const;
  bool at_boundary() const;
  void set_sync(bool on);
  void train(bool on);

  struct Counters {
    std::int64_t micro_steps = 0;
    std::int64_t since_update = 0; ///< of them
    std::int64_t global_steps = 0;
    std::int64_t samples = 0; ///< of those, over all ranks
    std::int64_t skipped_steps = 0;
    std::int64_t schedule_steps = 0; ///< or samples, as the schedule counts
  };
  const Counters& counters() const { return counters_; }
  const config::DeepSpeedConfig& config() const { return config_.deepspeed; }
  const config::BatchConfig& batch() const { return *config().batch; }
  void set_train_batch_size(std::int64_t samples);
  const Precision& precision() const { return precision_; }
  const zero::Layout& layout() const { return *layout_; }
  const distributed::World& world() const { return world_; }
  const Logger& logger() const { return logger_; }
  at::Device device() const { return device_; }
  double loss_scale() const { return scaler_.scale(); }
  bool loss_is_scaled() const {
    return config().fp16.enabled || scaler_ != optim::LossScaler();
  }
  std::optional<double> gradient_norm() const { return gradient_norm_; }
  void count_zeros_in_gradient(bool on) { counts_zeros_ = on; }
  std::optional<std::int64_t> zeros_in_gradient() const { return zeros_; }
  double parameter_norm();
  std::vector<ElementSums> state_sums(const std::vector<std::string>& kinds);
  zero::ShardedOptimizer& optimizer() const { return *optimizer_; }
  /// In the layout's order.
  const ModelParameters& named_parameters() const { return parameters_; }
  zero::FlatParameters& parameters() const { return *flat_; }
  /// None where no parameter rests as shards.
  zero::ParameterGatherer* gatherer() const { return gatherer_.get(); }
  const distributed::ProcessGroup& group() const { return group_; }
  std::vector<double> learning_rates() const; ///< of the groups

  void save_checkpoint(
      const std::filesystem::path& folder,
      const std::optional<std::string>& tag,
      const ClientState& client,
      const SaveOptions& options);
  void finish_checkpoint();
  std::pair<std::optional<std::filesystem::path>, ClientState> load_checkpoint(
      const std::filesystem::path& folder,
      const std::optional<std::string>& tag,
      const LoadOptions& options);
  using VisitTensorSlice =
      std::function<void(const checkpoints::TensorSlice& slice)>;
  void watch_gradients(VisitTensorSlice watch) {
    gradient_watch_ = std::move(watch);
  }
  void visit_weights(const VisitTensorSlice& visit);
  void set_loader(std::shared_ptr<TrainingLoader::Place> place) {
    loader_ = std::move(place);
  }

  const nn::CheckpointOptions& checkpoint_options();
  std::optional<std::int64_t> curriculum_seqlen();

  MemoryReport memory_report() const;
  at::Tensor full_parameter(const std::string& name);

 private:
  void set_up(CoreOptions& options);
  void prepare_model();
  void share_gradients();
  void find_group_speakers();
  void sum_shared_gradients();
  void show_gradients() const;
  void plan(const std::vector<ParameterGroup>& groups, const optim::Rule* rule);
  std::unique_ptr<zero::ShardTier> make_disk(
      std::string_view key,
      const std::optional<std::string>& folder,
      zero::NvmeTierOptions options) const;
  void make_flat_parameters();
  bool pins_optimizer() const;
  void make_reducer();
  void make_rule_optimizer(std::unique_ptr<optim::Rule> rule);
  void make_client_optimizer(
      std::shared_ptr<torch::optim::Optimizer> optimizer);
  void make_schedule(std::shared_ptr<const optim::Schedule> client);
  void apply_schedule();
  void announce() const;
  void warn_of_keys(const std::vector<std::string>& acted_on) const;
  void warn_of_unused_options() const;

  using VisitSlice = std::function<void(
      const zero::Slice& slice,
      std::string_view kind,
      at::Tensor& values)>;
  void for_each_slice(
      int bucket,
      zero::Range held,
      zero::Range wanted,
      std::string_view kind,
      at::Tensor& values,
      const VisitSlice& visit) const;
  /// This rank, among those that share the bucket.
  int rank_in(int bucket) const {
    return groups_.sharers(layout_->buckets()[bucket]).rank();
  }
  zero::Range saved_here(int bucket, zero::Range held) const;
  /// What of it this rank saves.
  void put_slices(
      checkpoints::Sink& sink,
      int bucket,
      zero::Range held,
      std::string_view kind,
      at::Tensor& values) const;
  int model_rank() const; ///< within the ranks of one copy of the model
  bool speaks_for(int group) const;
  bool speaks_for(const ParameterShare& share) const;
  bool rests_on_disk() const;
  CheckpointWriter& checkpoint_writer();
  /// Everything of this rank; `describe`: without the values.
  void put_state(
      checkpoints::Sink& sink,
      const SaveOptions& options,
      bool describe);
  void put_numbers(checkpoints::Sink& sink);
  void put_generators(checkpoints::Sink& sink) const;
  void put_frozen(checkpoints::Sink& sink, bool describe);
  nlohmann::json mesh_degrees() const;
  nlohmann::json saved_state(const SaveOptions& options) const;
  std::string why_not_loaded(
      const std::filesystem::path& place,
      const LoadOptions& options,
      ClientState& client);
  ClientState restore(
      const std::filesystem::path& place,
      const LoadOptions& options);
  void restore_optimizer(
      const checkpoints::Source& source,
      const nlohmann::json& state,
      const LoadOptions& options);
  void restore_frozen(const checkpoints::Source& source);
  void publish_restored();
  void restore_generators(
      const checkpoints::Source& source,
      const nlohmann::json& state);

  void make_pipeline();
  void refuse_in_pipeline(std::string_view verb) const;
  void enter_forward();
  void leave_forward();
  at::Tensor scaled(const at::Tensor& loss) const;
  void run_backward(const std::function<void()>& pass, bool last);
  void end_micro_step(bool boundary);
  void write_step();
  std::int64_t gathered_bytes() const;
  /// While an exception is handled: throws it on, or if it means that memory
  /// is out, logs what there is and what to do, and throws that.
  [[noreturn]] void fail(std::string_view doing) const;
  [[noreturn]] void explain_shortage(
      std::string_view doing,
      const std::string& cause) const;

  void finish_accumulation();
  double reduced_norm();
  double reduced_sum_of_squares() const;
  std::int64_t count_zeros() const;
  bool overflows(double norm) const;
  enum class Skipped {
    counts,   ///< as a step
    is_undone ///< with others before it
  };
  Skipped skip_step();
  Skipped overflow_at_minimum(const std::string& culprit);
  void roll_back(const std::string& culprit);
  [[noreturn]] void stop_at_minimum(
      const std::string& culprit,
      const std::string& why) const;
  std::string first_non_finite() const;
  std::string first_of_model(const std::string& text) const;
  void update(double norm);

  config::Config config_;
  Model model_;
  std::optional<checkpoints::ModelDescription> description_;
  distributed::World world_;
  std::optional<distributed::ProcessMesh> mesh_;
  distributed::ProcessGroup group_; ///< that trains the same parameters
  Logger logger_;
  at::Device device_;
  Precision precision_;
  zero::Policy policy_;
  zero::RankGroups groups_; ///< who of group_ shares what
  ModelParameters parameters_;
  ModelShares shares_;
  std::vector<optim::GroupValues> group_values_;
  std::unique_ptr<zero::Layout> layout_;
  std::unique_ptr<zero::FlatParameters> flat_;
  std::unique_ptr<zero::GradientReducer> reducer_;
  /// Buckets whose gradients are parts, here and on other ranks of the model.
  struct SharedGradient {
    int bucket;
    distributed::ProcessGroup group;
  };
  std::vector<SharedGradient> shared_gradients_;
  /// Of each parameter group: the first model rank that has some of it.
  std::vector<std::int64_t> group_speakers_;
  std::unique_ptr<zero::ShardedOptimizer> optimizer_;
  std::unique_ptr<zero::ParameterGatherer> gatherer_;
  std::shared_ptr<const optim::Schedule> schedule_;
  bool schedule_counts_samples_ = false;
  optim::LossScaler scaler_;
  std::unique_ptr<pipeline::Executor> pipeline_; ///< none: one stage
  nn::CheckpointOptions checkpoint_options_;
  bool checkpoint_options_used_ = false;
  bool curriculum_used_ = false;
  int optimizer_states_ = 2; ///< of a client's optimizer: a guess
  bool clients_optimizer_ = false;
  ActivationMeter activations_;
  StepLog log_;
  StepMonitor monitor_;
  /// Gradients count so much after their sum: the mean's part that is not in
  /// the reducer's factor.
  double after_ = 1;
  Counters counters_;
  struct Checkpoint {
    std::filesystem::path folder;
    std::string tag;
  };
  std::optional<Checkpoint> last_checkpoint_; ///< saved or loaded here
  std::shared_ptr<TrainingLoader::Place> loader_;
  Snapshot snapshot_;
  std::int64_t rolled_back_from_ = -1;
  std::uint64_t held_steps_ = 0; ///< skipped at the smallest loss scale
  std::optional<double> gradient_norm_;
  VisitTensorSlice gradient_watch_; ///< may be empty
  bool counts_zeros_ = false;
  std::optional<std::int64_t> zeros_;
  bool first_pass_ = true;
  bool in_forward_ = false;
  bool training_ = true;
  bool synchronise_ = true;
  bool backward_done_ = false;
  /// Last, so that it ends first: a save may be under way.
  std::unique_ptr<CheckpointWriter> checkpoint_writer_;
};

} // namespace cairn::engine
