#include "config/key.h"

namespace cairn::config {
namespace {

void add_optimizer_params(std::vector<Key>& table) {
  using D = DeepSpeedConfig;
  using O = OptimizerConfig;
  using P = OptimizerParams;
  KeySection params(
      table,
      "optimizer.params",
      "Settings of the chosen optimizer. Those left out take its defaults.");
  params.row().open = [](D& config) { config.optimizer.params.emplace(); };
  const auto own = [](Key& key) { key.by_default("the optimizer's"); };
  const std::vector<std::string> adam{"Adam", "AdamW"};
  const std::vector<std::string> one_bit{
      "OneBitAdam",
      "OneBitLamb",
      "ZeroOneAdam"};
  const auto one_bit_only = [&](Key& key) {
    key.used_by(one_bit)
        .by_default("the optimizer's")
        .refused("1-bit optimizers are not built");
  };

  own(params.key<&D::optimizer, &O::params, &P::lr>("lr", "Learning rate.")
          .at_least(0));
  own(params
          .key<&D::optimizer, &O::params, &P::betas>(
              "betas",
              "Decay rates of the two running averages.")
          .at_least(0)
          .at_most(1)
          .used_by(
              {"Adam",
               "AdamW",
               "Lamb",
               "Lion",
               "Muon",
               "OneBitAdam",
               "OneBitLamb",
               "ZeroOneAdam",
               "MuAdam",
               "MuAdamW"}));
  own(params
          .key<&D::optimizer, &O::params, &P::eps>(
              "eps",
              "Added to the denominator against division by zero.")
          .at_least(0));
  own(params
          .key<&D::optimizer, &O::params, &P::weight_decay>(
              "weight_decay",
              "Strength of weight decay.")
          .at_least(0));
  own(params
          .key<&D::optimizer, &O::params, &P::bias_correction>(
              "bias_correction",
              "Whether the running averages are corrected for their start at "
              "zero.")
          .used_by(
              {"Adam",
               "AdamW",
               "Lamb",
               "OneBitAdam",
               "OneBitLamb",
               "ZeroOneAdam"}));
  params
      .key<&D::optimizer, &O::params, &P::adam_w_mode>(
          "adam_w_mode",
          "Decoupled weight decay (AdamW) rather than L2 regularisation.")
      .used_by(adam)
      .by_default("true");
  params
      .key<&D::optimizer, &O::params, &P::torch_adam>(
          "torch_adam",
          "Take PyTorch's Adam instead of DeepSpeed's.")
      .used_by(adam)
      .by_default("false")
      .without_effect("Cairn has one Adam, and it computes the same");
  params
      .key<&D::optimizer, &O::params, &P::amsgrad>(
          "amsgrad",
          "Keep the largest second moment seen so far.")
      .used_by(adam)
      .by_default("false")
      .refused("the AMSGrad variant is not built");
  own(params
          .key<&D::optimizer, &O::params, &P::momentum>(
              "momentum",
              "Momentum factor.")
          .at_least(0)
          .used_by({"SGD", "Muon", "MuSGD"}));
  own(params
          .key<&D::optimizer, &O::params, &P::dampening>(
              "dampening",
              "How much of the new gradient momentum leaves out.")
          .used_by({"SGD"}));
  own(params
          .key<&D::optimizer, &O::params, &P::nesterov>(
              "nesterov",
              "Nesterov momentum.")
          .used_by({"SGD", "Muon"}));
  own(params
          .key<&D::optimizer, &O::params, &P::lr_decay>(
              "lr_decay",
              "Decay of the learning rate with the step count.")
          .at_least(0)
          .used_by({"Adagrad"}));
  own(params
          .key<&D::optimizer, &O::params, &P::initial_accumulator_value>(
              "initial_accumulator_value",
              "Where the sum of squared gradients starts.")
          .at_least(0)
          .used_by({"Adagrad"}));
  own(params
          .key<&D::optimizer, &O::params, &P::max_coeff>(
              "max_coeff",
              "Upper bound of LAMB's trust ratio.")
          .used_by({"Lamb", "OneBitLamb"}));
  own(params
          .key<&D::optimizer, &O::params, &P::min_coeff>(
              "min_coeff",
              "Lower bound of LAMB's trust ratio.")
          .used_by({"Lamb", "OneBitLamb"}));
  params
      .key<&D::optimizer, &O::params, &P::muon_lr>(
          "muon_lr",
          "Learning rate of the matrices that Muon updates.")
      .at_least(0)
      .used_by({"Muon"})
      .by_default("lr");
  params
      .key<&D::optimizer, &O::params, &P::adam_lr>(
          "adam_lr",
          "Learning rate of the parameters left to Adam.")
      .at_least(0)
      .used_by({"Muon"})
      .by_default("lr");
  params
      .key<&D::optimizer, &O::params, &P::ns_method>(
          "ns_method",
          "How Newton-Schulz orthogonalisation is computed.")
      .one_of({"gram", "standard"})
      .used_by({"Muon"})
      .by_default("\"gram\"");
  params
      .key<&D::optimizer, &O::params, &P::max_grad_norm>(
          "max_grad_norm",
          "Old place of gradient clipping.")
      .by_default("0.0")
      .refused("use gradient_clipping");

  one_bit_only(params.key<&D::optimizer, &O::params, &P::freeze_step>(
      "freeze_step",
      "Steps before compression starts."));
  one_bit_only(params.key<&D::optimizer, &O::params, &P::cuda_aware>(
      "cuda_aware",
      "Whether MPI can send from GPU memory."));
  one_bit_only(params.key<&D::optimizer, &O::params, &P::comm_backend_name>(
      "comm_backend_name",
      "Library that moves compressed gradients."));
  one_bit_only(params.key<&D::optimizer, &O::params, &P::coeff_beta>(
      "coeff_beta",
      "Averaging rate of LAMB coefficients."));
  one_bit_only(params.key<&D::optimizer, &O::params, &P::factor_max>(
      "factor_max",
      "Largest scaling of a frozen LAMB coefficient."));
  one_bit_only(params.key<&D::optimizer, &O::params, &P::factor_min>(
      "factor_min",
      "Smallest scaling of a frozen LAMB coefficient."));
  one_bit_only(params.key<&D::optimizer, &O::params, &P::factor_threshold>(
      "factor_threshold",
      "How fast that scaling may change."));
  one_bit_only(params.key<&D::optimizer, &O::params, &P::var_freeze_step>(
      "var_freeze_step",
      "Last step that updates the variance."));
  one_bit_only(params.key<&D::optimizer, &O::params, &P::var_update_scaler>(
      "var_update_scaler",
      "Interval of variance updates."));
  one_bit_only(params.key<&D::optimizer, &O::params, &P::local_step_scaler>(
      "local_step_scaler",
      "Interval of scaling local steps."));
  one_bit_only(params.key<&D::optimizer, &O::params, &P::local_step_clipper>(
      "local_step_clipper",
      "Largest interval of local steps."));
}

void add_scheduler_params(std::vector<Key>& table) {
  using D = DeepSpeedConfig;
  using S = SchedulerConfig;
  using P = SchedulerParams;
  KeySection params(
      table,
      "scheduler.params",
      "Settings of the chosen schedule. Those left out take its defaults.");
  params.row().open = [](D& config) { config.scheduler.params.emplace(); };
  const std::vector<std::string> warmup{
      "WarmupLR",
      "WarmupDecayLR",
      "WarmupCosineLR"};
  const std::vector<std::string> plain_warmup{"WarmupLR", "WarmupDecayLR"};
  const std::vector<std::string> cosine{"WarmupCosineLR"};
  const std::vector<std::string> cycle{"OneCycle"};
  const std::vector<std::string> range{"LRRangeTest"};

  params
      .key<&D::scheduler, &S::params, &P::warmup_min_lr>(
          "warmup_min_lr",
          "Learning rate at the first step.")
      .used_by(plain_warmup)
      .by_default("0");
  params
      .key<&D::scheduler, &S::params, &P::warmup_max_lr>(
          "warmup_max_lr",
          "Learning rate at the end of the warm-up.")
      .used_by(plain_warmup)
      .by_default("the optimizer's lr; 0.001 for WarmupDecayLR");
  params
      .key<&D::scheduler, &S::params, &P::warmup_num_steps>(
          "warmup_num_steps",
          "Length of the warm-up in steps.")
      .at_least(0)
      .used_by(warmup)
      .by_default("1000");
  params
      .key<&D::scheduler, &S::params, &P::warmup_type>(
          "warmup_type",
          "Shape of the warm-up.")
      .one_of({"log", "linear"})
      .used_by(warmup)
      .by_default("\"log\"");
  params
      .key<&D::scheduler, &S::params, &P::total_num_steps>(
          "total_num_steps",
          "Steps until the decay has ended.")
      .at_least(0)
      .used_by({"WarmupDecayLR", "WarmupCosineLR"})
      .by_default("required");
  params
      .key<&D::scheduler, &S::params, &P::warmup_min_ratio>(
          "warmup_min_ratio",
          "Part of the learning rate at the first step.")
      .used_by(cosine)
      .by_default("0");
  params
      .key<&D::scheduler, &S::params, &P::cos_min_ratio>(
          "cos_min_ratio",
          "Part of the learning rate at the end.")
      .used_by(cosine)
      .by_default("0.0001");
  params
      .key<&D::scheduler, &S::params, &P::cycle_min_lr>(
          "cycle_min_lr",
          "Learning rate at both ends of the cycle.")
      .used_by(cycle)
      .by_default("required");
  params
      .key<&D::scheduler, &S::params, &P::cycle_max_lr>(
          "cycle_max_lr",
          "Learning rate at the top of the cycle.")
      .used_by(cycle)
      .by_default("required");
  params
      .key<&D::scheduler, &S::params, &P::decay_lr_rate>(
          "decay_lr_rate",
          "Decay of the learning rate after the cycle.")
      .used_by(cycle)
      .by_default("0");
  params
      .key<&D::scheduler, &S::params, &P::cycle_first_step_size>(
          "cycle_first_step_size",
          "Steps of the rising half.")
      .at_least(1)
      .used_by(cycle)
      .by_default("2000");
  params
      .key<&D::scheduler, &S::params, &P::cycle_second_step_size>(
          "cycle_second_step_size",
          "Steps of the falling half.")
      .at_least(1)
      .used_by(cycle)
      .by_default("cycle_first_step_size");
  params
      .key<&D::scheduler, &S::params, &P::cycle_first_stair_count>(
          "cycle_first_stair_count",
          "Stairs in the rising half.")
      .used_by(cycle)
      .by_default("0");
  params
      .key<&D::scheduler, &S::params, &P::cycle_second_stair_count>(
          "cycle_second_stair_count",
          "Stairs in the falling half.")
      .used_by(cycle)
      .by_default("cycle_first_stair_count");
  params
      .key<&D::scheduler, &S::params, &P::decay_step_size>(
          "decay_step_size",
          "Steps between decays after the cycle; 0: none.")
      .used_by(cycle)
      .by_default("0");
  params
      .key<&D::scheduler, &S::params, &P::cycle_momentum>(
          "cycle_momentum",
          "Whether momentum cycles against the rate.")
      .used_by(cycle)
      .by_default("true");
  params
      .key<&D::scheduler, &S::params, &P::cycle_min_mom>(
          "cycle_min_mom",
          "Momentum at the top of the cycle.")
      .used_by(cycle)
      .by_default("0.8");
  params
      .key<&D::scheduler, &S::params, &P::cycle_max_mom>(
          "cycle_max_mom",
          "Momentum at both ends of the cycle.")
      .used_by(cycle)
      .by_default("0.9");
  params
      .key<&D::scheduler, &S::params, &P::decay_mom_rate>(
          "decay_mom_rate",
          "Decay of momentum after the cycle.")
      .used_by(cycle)
      .by_default("0");
  params
      .key<&D::scheduler, &S::params, &P::lr_range_test_min_lr>(
          "lr_range_test_min_lr",
          "Learning rate the test starts with.")
      .used_by(range)
      .by_default("0.001");
  params
      .key<&D::scheduler, &S::params, &P::lr_range_test_step_size>(
          "lr_range_test_step_size",
          "Steps between increases.")
      .at_least(1)
      .used_by(range)
      .by_default("2000");
  params
      .key<&D::scheduler, &S::params, &P::lr_range_test_step_rate>(
          "lr_range_test_step_rate",
          "Increase per interval.")
      .used_by(range)
      .by_default("1");
  params
      .key<&D::scheduler, &S::params, &P::lr_range_test_staircase>(
          "lr_range_test_staircase",
          "Raise in stairs instead of smoothly.")
      .used_by(range)
      .by_default("false");
  params
      .key<&D::scheduler, &S::params, &P::last_batch_iteration>(
          "last_batch_iteration",
          "Step to continue from; -1: the start.")
      .at_least(-1)
      .by_default("-1");
}

} // namespace

void add_optimizer_keys(std::vector<Key>& table) {
  using D = DeepSpeedConfig;
  KeySection optimizer(
      table,
      "optimizer",
      "The optimizer, unless the program brings its own.");
  optimizer
      .key<&D::optimizer, &OptimizerConfig::type>(
          "type",
          "Adam, AdamW, SGD, Adagrad, Lamb, Lion or Muon; letter case does "
          "not count.")
      .by_default("none");
  add_optimizer_params(table);
  KeySection(table, "optimizer")
      .key<&D::optimizer, &OptimizerConfig::legacy_fusion>(
          "legacy_fusion",
          "Use the old fused fp16 optimizer.")
      .refused("there is one fused optimizer");

  KeySection scheduler(
      table,
      "scheduler",
      "The learning-rate schedule, unless the program brings its own.");
  scheduler
      .key<&D::scheduler, &SchedulerConfig::type>(
          "type",
          "WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle or LRRangeTest.")
      .by_default("none");
  add_scheduler_params(table);
}

} // namespace cairn::config
