#include <cairn/engine/optimizer.h>

#include "engine/core.h"

#include <utility>

namespace cairn::inline engine {

Optimizer::Optimizer(std::shared_ptr<Core> core) : core_(std::move(core)) {}

std::string Optimizer::name() const {
  return std::string(core_->trained.optimizer->name());
}

std::vector<optim::GroupValues>& Optimizer::param_groups() {
  return core_->trained.optimizer->groups();
}

double Optimizer::cur_scale() const {
  return core_->progress.scaler.scale();
}

LearningRate::LearningRate(std::shared_ptr<Core> core)
    : core_(std::move(core)) {}

std::vector<double> LearningRate::get_last_lr() const {
  return core_->trained.learning_rates();
}

std::int64_t LearningRate::steps() const {
  return core_->progress.schedule.steps();
}

} // namespace cairn::engine
