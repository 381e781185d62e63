#include <cairn/engine/engine.h>

#include "engine/core.h"

#include <utility>

namespace cairn {

Engine::Engine(std::shared_ptr<engine::Core> core) : core_(std::move(core)) {}

void Engine::begin_forward() {
  core_->begin_forward();
}

void Engine::end_forward() {
  core_->end_forward();
}

void Engine::fail_forward() {
  core_->fail_forward();
}

Engine::NoSync::NoSync(std::shared_ptr<engine::Core> core)
    : core_(std::move(core)) {
  core_->set_sync(false);
}

Engine::NoSync::~NoSync() {
  core_->set_sync(true);
}

Engine::NoSync Engine::no_sync() {
  return NoSync(core_);
}

Model& Engine::model() {
  return core_->model();
}

at::Tensor Engine::prepared_tensor(const at::Tensor& input) const {
  return core_->prepared(input);
}

void Engine::backward(const at::Tensor& loss) {
  core_->backward(loss);
}

void Engine::step() {
  core_->step();
}

bool Engine::is_gradient_accumulation_boundary() const {
  return core_->at_boundary();
}

void Engine::train(bool on) {
  core_->train(on);
}

std::int64_t Engine::global_steps() const {
  return core_->counters().global_steps;
}

std::int64_t Engine::micro_steps() const {
  return core_->counters().micro_steps;
}

std::int64_t Engine::global_samples() const {
  return core_->counters().samples;
}

std::int64_t Engine::skipped_steps() const {
  return core_->counters().skipped_steps;
}

std::optional<double> Engine::get_global_grad_norm() const {
  return core_->gradient_norm();
}

void Engine::count_zeros_in_gradient(bool on) {
  core_->count_zeros_in_gradient(on);
}

std::optional<std::int64_t> Engine::zeros_in_gradient() const {
  return core_->zeros_in_gradient();
}

double Engine::parameter_norm() {
  return core_->parameter_norm();
}

std::vector<ElementSums> Engine::state_sums(
    const std::vector<std::string>& names) {
  return core_->state_sums(names);
}

double Engine::cur_scale() const {
  return core_->loss_scale();
}

bool Engine::loss_is_scaled() const {
  return core_->loss_is_scaled();
}

std::vector<double> Engine::get_lr() const {
  return core_->learning_rates();
}

std::int64_t Engine::train_batch_size() const {
  return core_->batch().train;
}

at::Tensor Engine::train_batch(const pipeline::NextMicroBatch& next) {
  return core_->train_batch(next);
}
at::Tensor Engine::eval_batch(
    const pipeline::NextMicroBatch& next,
    std::optional<std::int64_t> micro_batches) {
  return core_->eval_batch(
      next,
      micro_batches.value_or(gradient_accumulation_steps()));
}
std::vector<std::pair<std::string, at::Tensor>> Engine::loss_parts() const {
  return core_->loss_parts();
}
void Engine::set_train_batch_size(std::int64_t samples) {
  core_->set_train_batch_size(samples);
}
std::optional<std::int64_t> Engine::curriculum_seqlen() const {
  return core_->curriculum_seqlen();
}
std::int64_t Engine::train_micro_batch_size_per_gpu() const {
  return core_->batch().micro;
}

std::int64_t Engine::gradient_accumulation_steps() const {
  return core_->batch().accumulation;
}

int Engine::zero_optimization_stage() const {
  return static_cast<int>(core_->config().zero.stage);
}

bool Engine::fp16_enabled() const {
  return core_->config().fp16.enabled;
}

bool Engine::bfloat16_enabled() const {
  return core_->config().bf16.enabled;
}

int Engine::rank() const {
  return core_->world().rank();
}

int Engine::local_rank() const {
  return core_->world().local_rank();
}

at::Device Engine::device() const {
  return core_->device();
}

torch::nn::Module& Engine::module() {
  return core_->model().module();
}

void Engine::watch_gradients(VisitSlice watch) {
  core_->watch_gradients(std::move(watch));
}

void Engine::visit_weights(const VisitSlice& visit) {
  core_->visit_weights(visit);
}

void Engine::save_checkpoint(
    const std::filesystem::path& folder,
    const std::optional<std::string>& tag,
    const ClientState& client_state,
    const SaveOptions& options) {
  core_->save_checkpoint(folder, tag, client_state, options);
}

void Engine::finish_checkpoint() {
  core_->finish_checkpoint();
}

std::pair<std::optional<std::filesystem::path>, ClientState> Engine::
    load_checkpoint(
        const std::filesystem::path& folder,
        const std::optional<std::string>& tag,
        const LoadOptions& options) {
  return core_->load_checkpoint(folder, tag, options);
}

const nn::CheckpointOptions& Engine::checkpoint_options() const {
  return core_->checkpoint_options();
}

MemoryReport Engine::memory_report() const {
  return core_->memory_report();
}

at::Tensor Engine::full_parameter(const std::string& name) {
  return core_->full_parameter(name);
}

} // namespace cairn
