#include "config/key.h"

namespace cairn::config {

void add_precision_keys(std::vector<Key>& table) {
  using D = DeepSpeedConfig;
  using F = Fp16Config;
  using B = Bf16Config;
  using T = DataTypesConfig;

  KeySection fp16(
      table,
      "fp16",
      "Half precision with loss scaling and fp32 weights.");
  fp16.validated();
  fp16.key<&D::fp16, &F::enabled>("enabled", "Train in fp16.");
  fp16.key<&D::fp16, &F::auto_cast>(
      "auto_cast",
      "Cast floating-point inputs of the model to fp16.");
  Key& scale = fp16.key<&D::fp16, &F::loss_scale>(
      "loss_scale",
      "Fixed loss scale; 0 adapts it as training goes.");
  scale.at_least(0).rules.bool_is_number = false;
  fp16.key<&D::fp16, &F::initial_scale_power>(
          "initial_scale_power",
          "The adapting scale starts at 2 to this power.")
      .at_least(-1022)
      .at_most(1023);
  fp16.key<&D::fp16, &F::loss_scale_window>(
          "loss_scale_window",
          "Steps without overflow before the scale is doubled.")
      .rules.bool_is_number = false;
  fp16.key<&D::fp16, &F::hysteresis>(
      "hysteresis",
      "Overflows tolerated before the scale is halved.");
  fp16.key<&D::fp16, &F::consecutive_hysteresis>(
      "consecutive_hysteresis",
      "Whether a step without overflow refills the hysteresis.");
  fp16.key<&D::fp16, &F::min_loss_scale>(
          "min_loss_scale",
          "The adapting scale never falls below this.")
      .rules.bool_is_number = false;
  fp16.key<&D::fp16, &F::at_minimum_scale>(
      "at_minimum_scale",
      "After an overflow at min_loss_scale: stop the run, hold the scale and "
      "skip the step, or roll back to the last checkpoint. Cairn's own key.");
  fp16.key<&D::fp16, &F::fp16_master_weights_and_grads>(
          "fp16_master_weights_and_grads",
          "Keep the optimizer's weights and gradients in fp16.")
      .refused("the optimizer's weights are always fp32");

  KeySection bf16(
      table,
      "bf16",
      "bfloat16 with fp32 weights, no loss scaling.");
  bf16.validated();
  Key& section = bf16.row();
  section.also("bfloat16");
  section.null_allowed = true;
  bf16.key<&D::bf16, &B::enabled>("enabled", "Train in bf16.");
  bf16.key<&D::bf16, &B::immediate_grad_update>(
          "immediate_grad_update",
          "Add each gradient to its fp32 sum as soon as it is there.")
      .without_effect("gradients always go to their fp32 sum at once");
  bf16.key<&D::bf16, &B::check_grad_overflow>(
      "check_grad_overflow",
      "Skip a step whose gradients are not finite.");
  bf16.key<&D::bf16, &B::bf16_master_weights_and_grads>(
          "bf16_master_weights_and_grads",
          "Keep the optimizer's weights and gradients in bf16.")
      .refused("the optimizer's weights are always fp32");
  bf16.key<&D::bf16, &B::bf16_optimizer_states>(
          "bf16_optimizer_states",
          "Keep the optimizer's moments in bf16.")
      .refused("the optimizer's moments are always fp32");

  KeySection amp(
      table,
      "amp",
      "Autocast-style mixed precision; excludes fp16, bf16 and ZeRO.");
  amp.key<&D::amp, &AmpConfig::enabled>("enabled", "Train with autocast.");
  amp.key<&D::amp, &AmpConfig::opt_level>(
         "opt_level",
         "Apex's level; O1 is autocast.")
      .one_of({"O0", "O1", "O2", "O3"})
      .refused("only O1, which is autocast");
  amp.key<&D::amp, &AmpConfig::loss_scale>(
      "loss_scale",
      "Factor of the loss; \"dynamic\" adapts it where autocast is to fp16, "
      "which is on GPUs.");
  amp.key<&D::amp, &AmpConfig::min_loss_scale>(
         "min_loss_scale",
         "The adapting scale never falls below this.")
      .above(0);
  amp.key<&D::amp, &AmpConfig::max_loss_scale>(
         "max_loss_scale",
         "The adapting scale never rises above this.")
      .above(0);
  for (const char* setting :
       {"cast_model_type",
        "patch_torch_functions",
        "keep_batchnorm_fp32",
        "master_weights",
        "num_losses",
        "verbosity"}) {
    amp.opaque(
        setting,
        "A setting of Apex's amp.initialize.",
        "O1 here is autocast, which has no such setting");
  }

  KeySection types(table, "data_types", "Types of what is not a weight.");
  types
      .key<&D::data_types, &T::grad_accum_dtype>(
          "grad_accum_dtype",
          "Type in which gradients are summed up.")
      .by_default("fp32 with bf16, else that of training");
  types
      .key<&D::data_types, &T::param_dtype>(
          "param_dtype",
          "Type that parameters are cast to.")
      .by_default("that of training")
      .refused("set fp16 or bf16 instead");
  types
      .key<&D::data_types, &T::buffer_dtype>(
          "buffer_dtype",
          "Type that buffers are cast to.")
      .by_default("that of training")
      .refused("set fp16 or bf16 instead; integers stay");
}

} // namespace cairn::config
