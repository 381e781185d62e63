#include <cairn/engine/engine.h>

#include "engine/core.h"
#include "engine/memory/memory_use.h"
#include "engine/step/measures.h"

#include <utility>

namespace cairn::inline engine {

Engine::Engine(std::shared_ptr<Core> core) : core_(std::move(core)) {}

void Engine::begin_forward() {
  core_->steps.begin_forward();
}

void Engine::end_forward() {
  core_->steps.end_forward();
}

void Engine::fail_forward() {
  core_->steps.fail_forward();
}

Model& Engine::model() {
  return core_->trained.model;
}

at::Tensor Engine::prepared_tensor(const at::Tensor& input) const {
  return core_->steps.prepared(input);
}

void Engine::backward(const at::Tensor& loss) {
  core_->steps.backward(loss);
}

void Engine::step() {
  core_->steps.step();
}

bool Engine::is_gradient_accumulation_boundary() const {
  return core_->steps.at_boundary();
}

at::Tensor Engine::train_batch(const BatchPasses& passes) {
  return core_->steps.train_batch(passes);
}

at::Tensor Engine::eval_batch(
    const BatchPasses& passes,
    std::optional<std::int64_t> micro_batches) {
  return core_->steps.eval_batch(
      passes,
      micro_batches.value_or(core_->job.batch().accumulation));
}

LossParts Engine::loss_parts() const {
  return core_->steps.loss_parts();
}

Engine::NoSync::NoSync(std::shared_ptr<Core> core) : core_(std::move(core)) {
  core_->steps.set_sync(false);
}

Engine::NoSync::~NoSync() {
  core_->steps.set_sync(true);
}

Engine::NoSync Engine::no_sync() {
  return NoSync(core_);
}

void Engine::train(bool on) {
  core_->steps.train(on);
}

EngineSettings Engine::settings() const {
  const config::DeepSpeedConfig& config = core_->job.deepspeed();
  const config::BatchConfig& batch = core_->job.batch();
  return {
      .train_batch_size = batch.train,
      .train_micro_batch_size_per_gpu = batch.micro,
      .gradient_accumulation_steps = batch.accumulation,
      .zero_optimization_stage = static_cast<int>(config.zero.stage),
      .fp16_enabled = config.fp16.enabled,
      .bfloat16_enabled = config.bf16.enabled,
      .loss_is_scaled = core_->steps.loss_is_scaled()};
}

EngineProgress Engine::progress() const {
  const Progress& progress = core_->progress;
  return {
      .global_steps = progress.global_steps,
      .micro_steps = progress.micro_steps,
      .global_samples = progress.samples,
      .skipped_steps = progress.skipped_steps,
      .loss_scale = progress.scaler.scale(),
      .learning_rates = core_->trained.learning_rates(),
      .zeros_in_gradient = core_->updater.zeros()};
}

int Engine::rank() const {
  return core_->job.world.rank();
}

int Engine::local_rank() const {
  return core_->job.world.local_rank();
}

at::Device Engine::device() const {
  return core_->job.device;
}

torch::nn::Module& Engine::module() {
  return core_->trained.model.module();
}

void Engine::set_train_batch_size(std::int64_t samples) {
  core_->steps.set_train_batch_size(samples);
}

std::optional<std::int64_t> Engine::curriculum_seqlen() const {
  const auto length =
      core_->offered.curriculum_length(core_->progress.global_steps + 1);
  return core_->steps.training() ? length : std::nullopt;
}

std::optional<double> Engine::gradient_norm() const {
  return core_->updater.gradient_norm();
}

void Engine::count_zeros_in_gradient(bool on) {
  core_->updater.count_zeros(on);
}

double Engine::parameter_norm() {
  return engine::parameter_norm(core_->state, core_->job.world.group());
}

std::vector<ElementSums> Engine::state_sums(
    const std::vector<std::string>& names) {
  return engine::state_sums(core_->state, core_->job.world.group(), names);
}

void Engine::watch_gradients(VisitSlice watch) {
  core_->updater.watch_gradients(std::move(watch));
}

void Engine::visit_weights(const VisitSlice& visit) {
  engine::visit_weights(core_->state, visit);
}

void Engine::save_checkpoint(
    const std::filesystem::path& folder,
    const std::optional<std::string>& tag,
    const ClientState& client_state,
    const SaveOptions& options) {
  core_->checkpoints.save(folder, tag, client_state, options);
}

void Engine::finish_checkpoint() {
  core_->checkpoints.finish();
}

std::pair<std::optional<std::filesystem::path>, ClientState> Engine::
    load_checkpoint(
        const std::filesystem::path& folder,
        const std::optional<std::string>& tag,
        const LoadOptions& options) {
  return core_->checkpoints.load(folder, tag, options);
}

ClientState Engine::restore_state(
    const checkpoints::Source& tensors,
    const std::string& numbers,
    const LoadOptions& options) {
  return core_->checkpoints.take(tensors, numbers, options);
}

const nn::CheckpointOptions& Engine::checkpoint_options() const {
  return core_->offered.checkpointing();
}

MemoryReport Engine::memory_report() const {
  return engine::memory_report(
      core_->job,
      core_->trained,
      core_->steps.activations());
}

at::Tensor Engine::full_parameter(const std::string& name) {
  return core_->trained.full_parameter(name);
}

} // namespace cairn::engine
