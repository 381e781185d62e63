#include "engine/step/step_profile.h"

#include <cairn/base/file.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline engine {

namespace {

void begin(std::optional<at::RecordFunction>& pass, const char* name) {
  pass.emplace(at::RecordScope::USER_SCOPE);
  pass->before(name);
}

} // namespace

StepProfile::StepProfile(
    const Job& job,
    const ModelParameters& parameters,
    const monitor::Timers& timers)
    : job_(job),
      parameters_(parameters),
      timers_(timers),
      due_(job.speaks() && job.deepspeed().flops_profiler.enabled) {}

StepProfile::~StepProfile() {
  if (due_) {
    job_.logger.warning(
        "flops_profiler: training ended before update {} could be profiled",
        job_.deepspeed().flops_profiler.profile_step + 1);
  }
}

void StepProfile::begin_forward(std::int64_t updates) {
  if (!due_) {
    return;
  }
  if (!profiler_) {
    if (updates < job_.deepspeed().flops_profiler.profile_step) {
      return;
    }
    if (!monitor::StepProfiler::can_start()) {
      if (!std::exchange(said_busy_, true)) {
        job_.logger.info(
            "flops_profiler: update {} is traced, so a later one is profiled",
            updates + 1);
      }
      return;
    }
    using monitor::ProfiledDevices;
    profiler_ = std::make_unique<monitor::StepProfiler>(
        job_.device.is_cuda() ? ProfiledDevices::cpu_and_gpu
                              : ProfiledDevices::cpu,
        parameters());
    updates_ = updates;
    passes_ = 0;
    times_.take(timers_);
  }
  ++passes_;
  begin(pass_, monitor::forward_scope);
}

void StepProfile::end_forward() {
  pass_.reset();
}

void StepProfile::begin_backward() {
  if (profiler_) {
    begin(pass_, monitor::backward_scope);
  }
}

void StepProfile::end_backward() {
  pass_.reset();
}

void StepProfile::end_update() {
  if (!profiler_) {
    return;
  }
  due_ = !report();
  profiler_.reset();
  if (due_) {
    job_.logger.info(
        "flops_profiler: update {} has tried algorithms of products, so a "
        "later one is profiled",
        updates_ + 1);
  }
}

void StepProfile::abandon() {
  pass_.reset();
  profiler_.reset();
  due_ = false;
}

std::vector<monitor::StepProfiler::Parameter> StepProfile::parameters() const {
  std::vector<monitor::StepProfiler::Parameter> result;
  for (std::size_t i = 0; i < parameters_.names.size(); ++i) {
    const at::Tensor& tensor = parameters_.tensors[i];
    result.push_back({parameters_.names[i], tensor, tensor.numel()});
  }
  return result;
}

bool StepProfile::report() {
  const auto modules = profiler_->finish(passes_);
  if (!modules) {
    return false;
  }
  double forward = 0;
  double backward = 0;
  double update = 0;
  for (const auto& [name, milliseconds] : times_.take(timers_)) {
    const double seconds = milliseconds / 1e3;
    if (name == "forward") {
      forward = seconds;
    } else if (name == "backward") {
      backward = seconds;
    } else if (
        name == "allreduce" || name == "grad norm" || name == "optimizer") {
      update += seconds;
    }
  }
  const auto passes = static_cast<double>(passes_);
  write(monitor::flops_report(
      *modules,
      {.step = updates_,
       .passes = passes_,
       .ranks = job_.world.size(),
       .data_parallel = job_.batch().data_parallel,
       .model_parallel = job_.world.size() /
           std::max<std::int64_t>(1, job_.batch().data_parallel),
       .micro_batch = job_.batch().micro,
       .batch = job_.batch().train,
       .forward_seconds = forward / passes,
       .backward_seconds = backward / passes,
       .update_seconds = update,
       .on_gpu = job_.device.is_cuda()},
      job_.deepspeed().flops_profiler));
  return true;
}

void StepProfile::write(const std::string& text) const {
  const auto& file = job_.deepspeed().flops_profiler.output_file;
  if (!file) {
    job_.logger.info("\n{}", text);
    return;
  }
  write_file_atomically(*file, text);
  job_.logger.info("flops_profiler: the profile is in {}", *file);
}

} // namespace cairn::engine
