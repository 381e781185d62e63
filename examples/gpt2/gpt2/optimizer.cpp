#include "gpt2/optimizer.h"

#include <cairn/engine/optimizer.h>
#include <cairn/optim/megatron_schedule.h>

#include <vector>

namespace gpt2 {

std::shared_ptr<torch::optim::AdamW> get_optimizer(
    const torch::nn::Module& model,
    const cairn::config::Config& args) {
  const auto& flags = args.flags.regularization;
  const auto options = torch::optim::AdamWOptions(*args.flags.learning_rate.lr)
                           .betas(
                               {flags.adam_beta1.value_or(0.9),
                                flags.adam_beta2.value_or(0.999)})
                           .eps(flags.adam_eps.value_or(1e-8))
                           .weight_decay(flags.weight_decay.value_or(0.01));
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const auto& group : cairn::no_decay_groups(model)) {
    auto own = std::make_unique<torch::optim::AdamWOptions>(options);
    own->weight_decay(
        group.values.weight_decay.value_or(options.weight_decay()));
    groups.emplace_back(group.parameters, std::move(own));
  }
  return std::make_shared<torch::optim::AdamW>(groups, options);
}

std::shared_ptr<const cairn::optim::Schedule> get_learning_rate_scheduler(
    const cairn::config::Config& args) {
  return cairn::optim::megatron_schedule(
      cairn::optim::megatron_schedule_options(
          args.flags,
          args.deepspeed.batch->train),
      {{}, {.weight_decay_multiplier = 0}});
}

} // namespace gpt2
