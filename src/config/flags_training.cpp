#include "config/flag.h"

namespace cairn::config {
namespace {

using F = Flags;

void add_training(std::vector<Flag>& table) {
  using T = TrainingFlags;
  FlagGroup training(table, "training");
  training
      .flag<&F::training, &T::micro_batch_size>(
          "--micro-batch-size",
          "Samples one rank takes at a time.")
      .at_least(1)
      .also("--batch-size", "is the old name of --micro-batch-size")
      .same_as("train_micro_batch_size_per_gpu");
  training
      .flag<&F::training, &T::global_batch_size>(
          "--global-batch-size",
          "Samples per optimizer step, all ranks.")
      .at_least(1)
      .same_as("train_batch_size");
  training
      .flag<&F::training, &T::rampup_batch_size>(
          "--rampup-batch-size",
          "Start, increment and samples over which the global batch grows.")
      .at_least(0)
      .values(3, 3);
  training
      .flag<&F::training, &T::train_iters>(
          "--train-iters",
          "Optimizer steps to train for.")
      .at_least(0)
      .also("--num_iterations");
  training
      .flag<&F::training, &T::train_samples>(
          "--train-samples",
          "Samples to train for.")
      .at_least(0);
  training
      .flag<&F::training, &T::train_tokens>(
          "--train-tokens",
          "Tokens to train for; may stand beside --train-samples as an "
          "earlier end.")
      .at_least(0);
  training
      .flag<&F::training, &T::exit_interval>(
          "--exit-interval",
          "Stop at the next multiple of so many steps.")
      .at_least(1);
  training
      .flag<&F::training, &T::exit_duration_in_mins>(
          "--exit-duration-in-mins",
          "Save and stop after so many minutes.")
      .at_least(0);
  training.flag<&F::training, &T::exit_signal_handler>(
      "--exit-signal-handler",
      "Save and stop on SIGTERM and Ctrl-C.");
  training.flag<&F::training, &T::seed>("--seed", "Seed of all randomness.")
      .at_least(0);
  training
      .flag<&F::training, &T::deterministic>(
          "--deterministic",
          "Bit-equal results from run to run.")
      .also("--deterministic-mode");
  training.flag<&F::training, &T::checkpoint_activations>(
      "--checkpoint-activations",
      "Recompute each layer in backward.");
  training.flag<&F::training, &T::deepspeed_activation_checkpointing>(
      "--deepspeed-activation-checkpointing",
      "Recompute by the engine's rules; with --checkpoint-activations.");
  training.flag<&F::training, &T::recompute_activations>(
      "--recompute-activations",
      "Recompute attention only.");
  training.flag<&F::training, &T::recompute_granularity>(
      "--recompute-granularity",
      "Recompute whole layers, or attention only.");
  training.flag<&F::training, &T::recompute_method>(
      "--recompute-method",
      "Whole layers: groups of --recompute-num-layers, or only the first so "
      "many of a stage.");
  training
      .flag<&F::training, &T::recompute_num_layers>(
          "--recompute-num-layers",
          "Layers per group, or in all.")
      .at_least(1)
      .also("--checkpoint-num-layers");
  training.flag<&F::training, &T::optimizer>("--optimizer", "The optimizer.")
      .by_default("adam");
  training.off<&F::training, &T::check_for_nan>(
      "--no-check-for-nan-in-loss-and-grad",
      "Do not stop at a loss that is no number.");
}

void add_regularization(std::vector<Flag>& table) {
  using R = RegularizationFlags;
  FlagGroup group(table, "regularization");
  group
      .flag<&F::regularization, &R::attention_dropout>(
          "--attention-dropout",
          "Dropout of attention weights.")
      .at_least(0)
      .at_most(1);
  group
      .flag<&F::regularization, &R::hidden_dropout>(
          "--hidden-dropout",
          "Dropout of hidden states.")
      .at_least(0)
      .at_most(1);
  group
      .flag<&F::regularization, &R::weight_decay>(
          "--weight-decay",
          "Strength of weight decay.")
      .at_least(0)
      .by_default("0.01")
      .same_as("optimizer.params.weight_decay");
  group
      .flag<&F::regularization, &R::start_weight_decay>(
          "--start-weight-decay",
          "Weight decay at the first step.")
      .at_least(0)
      .by_default("--weight-decay");
  group
      .flag<&F::regularization, &R::end_weight_decay>(
          "--end-weight-decay",
          "Weight decay at the last step.")
      .at_least(0)
      .by_default("--weight-decay");
  group.flag<&F::regularization, &R::weight_decay_incr_style>(
      "--weight-decay-incr-style",
      "How it gets from one to the other.");
  group
      .flag<&F::regularization, &R::clip_grad>(
          "--clip-grad",
          "Largest norm of all gradients; 0: no clipping.")
      .at_least(0)
      .by_default("1.0")
      .same_as("gradient_clipping");
  group
      .flag<&F::regularization, &R::adam_beta1>(
          "--adam-beta1",
          "Decay of the running mean; betas[0] in JSON.")
      .at_least(0)
      .at_most(1)
      .by_default("0.9");
  group
      .flag<&F::regularization, &R::adam_beta2>(
          "--adam-beta2",
          "Decay of the running square; betas[1] in JSON.")
      .at_least(0)
      .at_most(1)
      .by_default("0.999");
  group
      .flag<&F::regularization, &R::adam_eps>(
          "--adam-eps",
          "Added to the denominator.")
      .at_least(0)
      .by_default("1e-8")
      .same_as("optimizer.params.eps");
  group
      .flag<&F::regularization, &R::momentum>(
          "--sgd-momentum",
          "Momentum of SGD or Muon.")
      .at_least(0)
      .also("--muon-momentum")
      .by_default("the optimizer's")
      .same_as("optimizer.params.momentum");
}

void add_learning_rate(std::vector<Flag>& table) {
  using L = LearningRateFlags;
  FlagGroup group(table, "learning rate");
  group.flag<&F::learning_rate, &L::lr>("--lr", "Highest learning rate.")
      .at_least(0)
      .same_as("optimizer.params.lr");
  group.flag<&F::learning_rate, &L::min_lr>("--min-lr", "Lowest one.")
      .at_least(0);
  group.flag<&F::learning_rate, &L::decay_style>(
      "--lr-decay-style",
      "How it falls.");
  group
      .flag<&F::learning_rate, &L::decay_iters>(
          "--lr-decay-iters",
          "Steps until it is lowest.")
      .at_least(1)
      .by_default("--train-iters");
  group
      .flag<&F::learning_rate, &L::decay_samples>(
          "--lr-decay-samples",
          "Samples until it is lowest.")
      .at_least(1)
      .by_default("--train-samples");
  group
      .flag<&F::learning_rate, &L::decay_tokens>(
          "--lr-decay-tokens",
          "Tokens until it is lowest.")
      .at_least(1)
      .by_default("none");
  group
      .flag<&F::learning_rate, &L::warmup_fraction>(
          "--lr-warmup-fraction",
          "Part of the decay spent on warm-up.")
      .at_least(0)
      .at_most(1);
  group
      .flag<&F::learning_rate, &L::warmup_iters>(
          "--lr-warmup-iters",
          "Steps of warm-up.")
      .at_least(0);
  group
      .flag<&F::learning_rate, &L::warmup_samples>(
          "--lr-warmup-samples",
          "Samples of warm-up.")
      .at_least(0);
  group
      .flag<&F::learning_rate, &L::warmup_tokens>(
          "--lr-warmup-tokens",
          "Tokens of warm-up.")
      .at_least(0);
  group
      .flag<&F::learning_rate, &L::warmup_init>(
          "--lr-warmup-init",
          "Learning rate that warm-up starts from.")
      .at_least(0);
  group.flag<&F::learning_rate, &L::wsd_decay_style>(
      "--lr-wsd-decay-style",
      "How the last part of WSD falls.");
  group
      .flag<&F::learning_rate, &L::wsd_decay_iters>(
          "--lr-wsd-decay-iters",
          "Steps of the last part of WSD.")
      .at_least(1);
  group
      .flag<&F::learning_rate, &L::wsd_decay_samples>(
          "--lr-wsd-decay-samples",
          "Samples of the last part of WSD.")
      .at_least(1);
  group
      .flag<&F::learning_rate, &L::override_scheduler>(
          "--override-opt_param-scheduler",
          "Take the schedule from the flags, not from the checkpoint.")
      .also("--override-lr-scheduler");
  group
      .flag<&F::learning_rate, &L::use_checkpoint_scheduler>(
          "--use-checkpoint-opt_param-scheduler",
          "Take the schedule from the checkpoint, not from the flags.")
      .also("--use-checkpoint-lr-scheduler");
}

void add_checkpointing(std::vector<Flag>& table) {
  using C = CheckpointFlags;
  FlagGroup group(table, "checkpointing");
  group.flag<&F::checkpointing, &C::save>(
      "--save",
      "Folder to save checkpoints in.");
  group
      .flag<&F::checkpointing, &C::load>(
          "--load",
          "Folder to load from; without a checkpoint there, training starts "
          "afresh and says so.")
      .also("--load_checkpoint_dir");
  group
      .flag<&F::checkpointing, &C::save_interval>(
          "--save-interval",
          "Steps between checkpoints.")
      .at_least(1)
      .also("--checkpoint_every")
      .also("--persistent-save-interval");
  group
      .flag<&F::checkpointing, &C::keep_last>(
          "--keep-last",
          "Keep only so many of the newest checkpoints.")
      .at_least(1)
      .by_default("all");
  group
      .flag<&F::checkpointing, &C::keep_every>(
          "--keep-every",
          "Besides, keep those at multiples of so many steps.")
      .at_least(1)
      .also("--save-retain-interval");
  group
      .flag<&F::checkpointing, &C::ckpt_step>(
          "--ckpt-step",
          "Load this step instead of the latest.")
      .at_least(0)
      .by_default("the latest");
  group
      .flag<&F::checkpointing, &C::async_save>(
          "--async-save",
          "Write checkpoints while training goes on.")
      .without_effect("checkpoints are always written in the background");
  group.flag<&F::checkpointing, &C::finetune>(
      "--finetune",
      "Load weights only: step 0, fresh optimizer and randomness.");
  group.flag<&F::checkpointing, &C::no_load_optim>(
      "--no-load-optim",
      "Do not load optimizer state.");
  group.flag<&F::checkpointing, &C::no_load_rng>(
      "--no-load-rng",
      "Do not load the state of randomness.");
  group.flag<&F::checkpointing, &C::no_load_lr_state>(
      "--no-load-lr-state",
      "Do not load the state of the schedule.");
  group.flag<&F::checkpointing, &C::no_save_optim>(
      "--no-save-optim",
      "Do not save optimizer state.");
  group.flag<&F::checkpointing, &C::no_save_rng>(
      "--no-save-rng",
      "Do not save the state of randomness.");
  group.flag<&F::checkpointing, &C::exit_on_missing_checkpoint>(
      "--exit-on-missing-checkpoint",
      "Stop when --load finds nothing, instead of starting afresh.");
  group.flag<&F::checkpointing, &C::pretrained_checkpoint>(
      "--pretrained-checkpoint",
      "Weights that fine-tuning starts from.");
  group.flag<&F::checkpointing, &C::checkpoint_dir>(
      "--checkpoint_dir",
      "Folder that gets a folder per run, with checkpoints, settings and "
      "logs.");
}

void add_precision(std::vector<Flag>& table) {
  using P = PrecisionFlags;
  FlagGroup group(table, "mixed precision");
  group
      .flag<&F::precision, &P::fp16>(
          "--fp16",
          "Train in fp16 with loss scaling.")
      .by_default("off")
      .same_as("fp16.enabled");
  group.flag<&F::precision, &P::bf16>("--bf16", "Train in bf16.")
      .by_default("off")
      .same_as("bf16.enabled");
  group.flag<&F::precision, &P::fp32_allreduce>(
      "--fp32-allreduce",
      "Reduce gradients in fp32: communication_data_type in JSON.");
  group
      .flag<&F::precision, &P::loss_scale>(
          "--loss-scale",
          "Fixed loss scale; 0 adapts it.")
      .at_least(0)
      .by_default("adapts")
      .same_as("fp16.loss_scale");
  group
      .flag<&F::precision, &P::initial_loss_scale>(
          "--initial-loss-scale",
          "What the adapting scale starts from, a power of two; its exponent "
          "is fp16.initial_scale_power in JSON.")
      .above(0)
      .by_default("65536");
  group
      .flag<&F::precision, &P::min_loss_scale>(
          "--min-loss-scale",
          "The adapting scale never falls below this.")
      .at_least(1)
      .by_default("1")
      .same_as("fp16.min_loss_scale");
  group
      .flag<&F::precision, &P::loss_scale_window>(
          "--loss-scale-window",
          "Steps before the scale is doubled.")
      .at_least(1)
      .by_default("1000")
      .same_as("fp16.loss_scale_window");
  group
      .flag<&F::precision, &P::hysteresis>(
          "--hysteresis",
          "Overflows before the scale is halved.")
      .at_least(1)
      .by_default("2")
      .same_as("fp16.hysteresis");
  group.flag<&F::precision, &P::accumulate_grads_in_fp32>(
      "--accumulate-allreduce-grads-in-fp32",
      "Sum up and reduce gradients in fp32: data_types.grad_accum_dtype and "
      "communication_data_type in JSON.");
  group.flag<&F::precision, &P::attention_softmax_in_fp32>(
      "--attention-softmax-in-fp32",
      "Softmax of attention in fp32.");
}

} // namespace

void add_training_flags(std::vector<Flag>& table) {
  add_training(table);
  add_regularization(table);
  add_learning_rate(table);
  add_checkpointing(table);
  add_precision(table);
}

} // namespace cairn::config
