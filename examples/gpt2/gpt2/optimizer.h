#pragma once

#include <cairn/config/config.h>
#include <cairn/optim/schedule.h>
#include <torch/nn/module.h>
#include <torch/optim/adamw.h>

#include <memory>

namespace gpt2 {

/// Adam in two groups of parameters: with weight decay, and without (biases
/// and norms).
std::shared_ptr<torch::optim::AdamW> get_optimizer(
    const torch::nn::Module& model,
    const cairn::config::Config& args);

/// Learning rate and weight decay of these groups, by consumed samples.
std::shared_ptr<const cairn::optim::Schedule> get_learning_rate_scheduler(
    const cairn::config::Config& args);

} // namespace gpt2
