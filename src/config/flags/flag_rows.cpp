#include "config/internal/flag.h"

// The table of flags. A row has, in this order: the name, the member that holds
// the value, the commands that act on it, its meaning, and parts that only some
// rows have. `cairn probe` takes --load, --ckpt-step and --input by itself,
// before the table reads the rest.

namespace cairn::config {
namespace table_of_flags {

using F = Flags;
constexpr Actors nobody;
constexpr Actors pretrain = Actor::pretrain;
constexpr Actors generate = Actor::generate;
constexpr Actors probe = Actor::probe | Actor::probe_train;
constexpr Actors trained_probe = Actor::probe_train;
constexpr Actors preprocess = Actor::preprocess;
constexpr Actors merging = Actor::merge_mp_partitions;
constexpr Actors evaluate = Actor::evaluate | Actor::finetune;
constexpr Actors finetune = Actor::finetune;

// clang-format off
constexpr Flag model[] = {
    {"--num-layers", to<&F::model, &ModelFlags::num_layers>, pretrain | generate | merging | evaluate, "Transformer layers.", at_least(1)},
    {"--encoder-num-layers", to<&F::model, &ModelFlags::encoder_num_layers>, pretrain, "Layers of the encoder (T5).", at_least(1), by_default("--num-layers")},
    {"--decoder-num-layers", to<&F::model, &ModelFlags::decoder_num_layers>, pretrain, "Layers of the decoder (T5).", at_least(1), by_default("--num-layers")},
    {"--hidden-size", to<&F::model, &ModelFlags::hidden_size>, pretrain | generate | merging | evaluate, "Width of the hidden state.", at_least(1), also("--h_dim")},
    {"--ffn-hidden-size", to<&F::model, &ModelFlags::ffn_hidden_size>, pretrain | generate | merging | evaluate, "Width inside the feed-forward part.", at_least(1), also("--ff_dim"), by_default("4 x hidden size; with --swiglu 2/3 of that")},
    {"--num-attention-heads", to<&F::model, &ModelFlags::num_attention_heads>, pretrain | generate | merging | evaluate, "Attention heads.", at_least(1), also("--num_heads")},
    {"--num-key-value-heads", to<&F::model, &ModelFlags::num_key_value_heads>, pretrain | generate | evaluate, "Heads of keys and values, shared by groups of query heads.", at_least(1), also("--num-query-groups"), by_default("--num-attention-heads")},
    {"--group-query-attention", to<&F::model, &ModelFlags::group_query_attention>, pretrain | generate | evaluate, "Share keys and values; needs --num-key-value-heads."},
    {"--kv-channels", to<&F::model, &ModelFlags::kv_channels>, pretrain | generate | merging | evaluate, "Width of one head.", at_least(1), by_default("hidden size / heads")},
    {"--max-position-embeddings", to<&F::model, &ModelFlags::max_position_embeddings>, pretrain | generate | merging | evaluate, "Positions the model knows; at least the sequence length.", at_least(1)},
    {"--position-embedding-type", to<&F::model, &ModelFlags::position_embedding>, pretrain | generate | evaluate, "How the model knows positions."},
    {"--use-rotary-position-embeddings", to<&F::model, &ModelFlags::use_rotary_position_embeddings>, pretrain | generate | evaluate, "The same as --position-embedding-type rope."},
    {"--no-position-embedding", to<&F::model, &ModelFlags::no_position_embedding>, pretrain | generate | evaluate, "No learned positions; beside --position-embedding-type rope.", no_effect("rotary positions take the place of learned ones")},
    {"--rotary-base", to<&F::model, &ModelFlags::rotary_base>, pretrain | generate | evaluate | merging, "Base of the rotary frequencies.", above(0), also("--rope-theta --rotary-position-embeddings-theta")},
    {"--rotary-percent", to<&F::model, &ModelFlags::rotary_percent>, pretrain | generate | evaluate, "Part of a head that is rotated.", between(0, 1)},
    {"--use-rope-scaling", to<&F::model, &ModelFlags::use_rope_scaling>, pretrain | generate | evaluate, "Stretch rotary positions as Llama 3.1 does, from 8192."},
    {"--rope-scaling-factor", to<&F::model, &ModelFlags::rope_scaling_factor>, pretrain | generate | evaluate, "Factor of --use-rope-scaling.", above(0)},
    {"--relative-attention-num-buckets", to<&F::model, &ModelFlags::relative_attention_num_buckets>, pretrain, "Buckets of the relative position bias (T5).", at_least(1)},
    {"--relative-attention-max-distance", to<&F::model, &ModelFlags::relative_attention_max_distance>, pretrain, "Farthest distance it tells apart (T5).", at_least(1)},
    {"--normalization", to<&F::model, &ModelFlags::normalization>, pretrain | generate | evaluate, "Kind of normalisation."},
    {"--norm-epsilon", to<&F::model, &ModelFlags::norm_epsilon>, pretrain | generate | evaluate | merging, "Added to the variance when normalising.", above(0), also("--layernorm-epsilon")},
    {"--swiglu", to<&F::model, &ModelFlags::swiglu>, pretrain | generate | evaluate, "Gated SiLU in the feed-forward part instead of GELU."},
    {"--openai-gelu", to<&F::model, &ModelFlags::openai_gelu>, pretrain | generate | evaluate, "The tanh form of GELU."},
    {"--squared-relu", to<&F::model, &ModelFlags::squared_relu>, pretrain | generate | evaluate, "Squares of ReLU in the place of GELU."},
    {"--no-bias-gelu-fusion", to<&F::model, &ModelFlags::exact_gelu>, pretrain | generate | evaluate, "The exact GELU, which Megatron computes without fusion; fused it is the tanh form."},
    {"--disable-bias-linear", to<&F::model, &ModelFlags::disable_bias_linear>, pretrain | generate | evaluate, "No biases in linear layers."},
    {"--add-qkv-bias", to<&F::model, &ModelFlags::add_qkv_bias>, pretrain | generate | evaluate, "Biases for query, key and value all the same."},
    {"--qk-layernorm", to<&F::model, &ModelFlags::qk_layernorm>, pretrain | generate | evaluate, "Norms over each head's query and key (Qwen3)."},
    {"--use-parallel-residual", to<&F::model, &ModelFlags::parallel_residual>, pretrain | generate | evaluate, "Attention and MLP side by side (GPT-NeoX)."},
    {"--untie-embeddings-and-output-weights", to<&F::model, &ModelFlags::untie_embeddings>, pretrain | generate | evaluate, "An output layer of its own instead of the embedding's weights."},
    {"--make-vocab-size-divisible-by", to<&F::model, &ModelFlags::make_vocab_size_divisible_by>, pretrain | merging | evaluate, "Pad the vocabulary to a multiple of this x tensor-parallel size.", at_least(1)},
    {"--bert-no-binary-head", to<&F::model, &ModelFlags::bert_binary_head>, pretrain, "BERT without next-sentence prediction.", turns_off()},
    {"--use-flash-attn", to<&F::model, &ModelFlags::use_flash_attn>, pretrain | finetune, "Fused attention.", also("--use-flash-attn-v1 --use-flash-attn-v2"), no_effect("fused attention is used wherever it can be")},
    {"--init-method-std", to<&F::model, &ModelFlags::init_method_std>, pretrain | finetune, "Standard deviation of initial weights.", above(0)},
};

constexpr Flag mixture_of_experts[] = {
    {"--num-experts", to<&F::moe, &MoeFlags::num_experts>, pretrain | generate | evaluate, "Experts per layer, or one number for all layers.", at_least(1)},
    {"--topk", to<&F::moe, &MoeFlags::topk>, pretrain | evaluate, "Experts each token goes to.", at_least(1), also("--moe-router-topk")},
    {"--mlp-type", to<&F::moe, &MoeFlags::mlp_type>, pretrain | generate | evaluate, "Experts alone, or beside a layer for every token.", one_of("standard residual")},
    {"--moe-loss-coeff", to<&F::moe, &MoeFlags::loss_coeff>, pretrain, "Weight of the load-balancing loss.", at_least(0), also("--moe-aux-loss-coeff")},
    {"--moe-train-capacity-factor", to<&F::moe, &MoeFlags::train_capacity_factor>, pretrain, "Room per expert in training, as a multiple of the even share.", above(0), also("--moe-expert-capacity-factor")},
    {"--moe-eval-capacity-factor", to<&F::moe, &MoeFlags::eval_capacity_factor>, pretrain, "The same in evaluation.", above(0)},
    {"--moe-min-capacity", to<&F::moe, &MoeFlags::min_capacity>, pretrain, "Tokens every expert has room for.", at_least(1)},
    {"--expert-interval", to<&F::moe, &MoeFlags::expert_interval>, pretrain | generate | evaluate, "Every so many layers have experts.", at_least(1)},
    {"--moe-layer-freq", to<&F::moe, &MoeFlags::layer_frequency>, pretrain | generate | evaluate, "Megatron-LM's spelling of --expert-interval 1: experts in every layer.", between(1, 1)},
    {"--disable-moe-token-dropping", to<&F::moe, &MoeFlags::token_dropping>, pretrain, "Make room for every token instead of dropping the overflow.", turns_off()},
    {"--disable-moe-random-token-selection", to<&F::moe, &MoeFlags::random_token_selection>, pretrain, "With top 1, drop the last tokens of an expert, not some that are drawn.", turns_off()},
    {"--disable-moe-top2-2nd-expert-sampling", to<&F::moe, &MoeFlags::second_expert_sampling>, pretrain, "With top 2, take the second best expert, not one that is drawn.", turns_off()},
    {"--moe-noisy-gate-policy", to<&F::moe, &MoeFlags::noise>, pretrain, "In training, what the router sees is jittered, or with top 1 the expert is drawn by its probability (RSample)."},
};

constexpr Flag training[] = {
    {"--micro-batch-size", to<&F::training, &TrainingFlags::micro_batch_size>, pretrain | generate | probe | evaluate, "Samples one rank takes at a time.", at_least(1), also("--batch-size", "is the old name of --micro-batch-size"), same_as("train_micro_batch_size_per_gpu")},
    {"--global-batch-size", to<&F::training, &TrainingFlags::global_batch_size>, pretrain | probe | finetune, "Samples per optimizer step, all ranks.", at_least(1), same_as("train_batch_size")},
    {"--rampup-batch-size", to<&F::training, &TrainingFlags::rampup_batch_size>, pretrain, "Start, increment and samples over which the global batch grows.", at_least(0), values(3)},
    {"--step-batch-size-schedule", to<&F::training, &TrainingFlags::batch_size_steps>, pretrain, "Global batches from so many tokens on: \"0:16 2.4B:320 12B:1536\"."},
    {"--train-iters", to<&F::training, &TrainingFlags::train_iters>, pretrain, "Optimizer steps to train for.", at_least(0), also("--num_iterations")},
    {"--train-samples", to<&F::training, &TrainingFlags::train_samples>, pretrain, "Samples to train for.", at_least(0)},
    {"--train-tokens", to<&F::training, &TrainingFlags::train_tokens>, pretrain, "Tokens to train for; may stand beside --train-samples as an earlier end.", at_least(0)},
    {"--exit-interval", to<&F::training, &TrainingFlags::exit_interval>, pretrain | finetune, "Stop at the next multiple of so many steps.", at_least(1)},
    {"--exit-duration-in-mins", to<&F::training, &TrainingFlags::exit_duration_in_mins>, pretrain, "Save and stop after so many minutes.", at_least(0)},
    {"--exit-signal-handler", to<&F::training, &TrainingFlags::exit_signal_handler>, pretrain, "Save and stop on SIGTERM and Ctrl-C."},
    {"--seed", to<&F::training, &TrainingFlags::seed>, pretrain | generate | finetune, "Seed of all randomness.", at_least(0)},
    {"--cuda-graph-impl", to<&F::training, &TrainingFlags::cuda_graphs>, pretrain, "Record the passes of a micro batch and the update as CUDA graphs (local): on GPUs, ZeRO stages 0 to 2, bf16 or fp32."},
    {"--enable-cuda-graph", to<&F::training, &TrainingFlags::enable_cuda_graph>, pretrain, "The same as --cuda-graph-impl local."},
    {"--cuda-graph-warmup-steps", to<&F::training, &TrainingFlags::cuda_graph_warmup_steps>, pretrain, "Steps before it is recorded.", at_least(1)},
    {"--deterministic", to<&F::training, &TrainingFlags::deterministic>, pretrain | finetune, "Bit-equal results from run to run.", also("--deterministic-mode")},
    {"--checkpoint-activations", to<&F::training, &TrainingFlags::checkpoint_activations>, pretrain | finetune, "Recompute each layer in backward."},
    {"--deepspeed-activation-checkpointing", to<&F::training, &TrainingFlags::deepspeed_activation_checkpointing>, pretrain | finetune, "Recompute by the engine's rules; with --checkpoint-activations."},
    {"--recompute-activations", to<&F::training, &TrainingFlags::recompute_activations>, pretrain, "Recompute parts of layers: --recompute-granularity selective."},
    {"--recompute-granularity", to<&F::training, &TrainingFlags::recompute_granularity>, pretrain | finetune, "Recompute whole layers, or the parts in --recompute-modules."},
    {"--recompute-method", to<&F::training, &TrainingFlags::recompute_method>, pretrain | finetune, "Whole layers: groups of --recompute-num-layers, or only the first so many of a stage.", also("--activations-checkpoint-method", "means --recompute-granularity full as well")},
    {"--recompute-num-layers", to<&F::training, &TrainingFlags::recompute_num_layers>, pretrain | finetune, "Layers per group, or in all.", at_least(1), also("--checkpoint-num-layers")},
    {"--partition-activations", to<&F::training, &TrainingFlags::partition_activations>, pretrain | finetune, "Split the kept inputs of recomputed layers over the tensor-parallel ranks.", also("--distribute-saved-activations --distribute-checkpointed-activations"), same_as("activation_checkpointing.partition_activations")},
    {"--checkpoint-in-cpu", to<&F::training, &TrainingFlags::checkpoint_in_cpu>, pretrain | finetune, "Keep the inputs of recomputed layers in the CPU's memory.", same_as("activation_checkpointing.cpu_checkpointing")},
    {"--recompute-modules", to<&F::training, &TrainingFlags::recompute_modules>, pretrain, "Parts that are recomputed: core_attn, layernorm, mlp, moe, moe_act."},
    {"--optimizer", to<&F::training, &TrainingFlags::optimizer>, pretrain | trained_probe | finetune, "The optimizer.", by_default("adam")},
    {"--no-check-for-nan-in-loss-and-grad", to<&F::training, &TrainingFlags::check_for_nan>, pretrain | finetune, "Do not stop at a loss that is no number.", turns_off()},
    {"--calculate-per-token-loss", to<&F::training, &TrainingFlags::per_token_loss>, pretrain, "The mean loss of all tokens of a batch; GPT without --eod-mask-loss.", no_effect("every micro batch has as many tokens")},
};

constexpr Flag regularization[] = {
    {"--attention-dropout", to<&F::regularization, &RegularizationFlags::attention_dropout>, pretrain | finetune, "Dropout of attention weights.", between(0, 1)},
    {"--hidden-dropout", to<&F::regularization, &RegularizationFlags::hidden_dropout>, pretrain | finetune, "Dropout of hidden states.", between(0, 1)},
    {"--weight-decay", to<&F::regularization, &RegularizationFlags::weight_decay>, pretrain | trained_probe | finetune, "Strength of weight decay.", at_least(0), by_default("0.01"), same_as("optimizer.params.weight_decay")},
    {"--start-weight-decay", to<&F::regularization, &RegularizationFlags::start_weight_decay>, pretrain | trained_probe | finetune, "Weight decay at the first step.", at_least(0), by_default("--weight-decay")},
    {"--end-weight-decay", to<&F::regularization, &RegularizationFlags::end_weight_decay>, pretrain | trained_probe | finetune, "Weight decay at the last step.", at_least(0), by_default("--weight-decay")},
    {"--weight-decay-incr-style", to<&F::regularization, &RegularizationFlags::weight_decay_incr_style>, pretrain | trained_probe | finetune, "How it gets from one to the other."},
    {"--clip-grad", to<&F::regularization, &RegularizationFlags::clip_grad>, pretrain | trained_probe | finetune, "Largest norm of all gradients; 0: no clipping.", at_least(0), by_default("1.0"), same_as("gradient_clipping")},
    {"--adam-beta1", to<&F::regularization, &RegularizationFlags::adam_beta1>, pretrain | trained_probe | finetune, "Decay of the running mean; betas[0] in JSON.", between(0, 1), by_default("0.9")},
    {"--adam-beta2", to<&F::regularization, &RegularizationFlags::adam_beta2>, pretrain | trained_probe | finetune, "Decay of the running square; betas[1] in JSON.", between(0, 1), by_default("0.999")},
    {"--adam-eps", to<&F::regularization, &RegularizationFlags::adam_eps>, pretrain | trained_probe | finetune, "Added to the denominator.", at_least(0), by_default("1e-8"), same_as("optimizer.params.eps")},
    {"--sgd-momentum", to<&F::regularization, &RegularizationFlags::momentum>, pretrain | trained_probe | finetune, "Momentum of SGD or Muon.", at_least(0), also("--muon-momentum"), by_default("the optimizer's"), same_as("optimizer.params.momentum")},
};

constexpr Flag learning_rate[] = {
    {"--lr", to<&F::learning_rate, &LearningRateFlags::lr>, pretrain | trained_probe | finetune, "Highest learning rate.", at_least(0), same_as("optimizer.params.lr")},
    {"--min-lr", to<&F::learning_rate, &LearningRateFlags::min_lr>, pretrain | trained_probe | finetune, "Lowest one.", at_least(0)},
    {"--decoupled-lr", to<&F::learning_rate, &LearningRateFlags::decoupled_lr>, pretrain, "Highest learning rate of word embeddings and the output layer.", at_least(0), by_default("that of --lr")},
    {"--decoupled-min-lr", to<&F::learning_rate, &LearningRateFlags::decoupled_min_lr>, pretrain, "Their lowest one.", at_least(0), by_default("that of --min-lr")},
    {"--lr-decay-style", to<&F::learning_rate, &LearningRateFlags::decay_style>, pretrain | trained_probe | finetune, "How it falls."},
    {"--lr-decay-iters", to<&F::learning_rate, &LearningRateFlags::decay_iters>, pretrain | trained_probe | finetune, "Steps until it is lowest.", at_least(1), by_default("--train-iters")},
    {"--lr-decay-samples", to<&F::learning_rate, &LearningRateFlags::decay_samples>, pretrain, "Samples until it is lowest.", at_least(1), by_default("--train-samples")},
    {"--lr-decay-tokens", to<&F::learning_rate, &LearningRateFlags::decay_tokens>, pretrain, "Tokens until it is lowest.", at_least(1), by_default("none")},
    {"--lr-warmup-fraction", to<&F::learning_rate, &LearningRateFlags::warmup_fraction>, pretrain | trained_probe | finetune, "Part of the decay spent on warm-up.", between(0, 1), also("--warmup", "is the old name of --lr-warmup-fraction")},
    {"--lr-warmup-iters", to<&F::learning_rate, &LearningRateFlags::warmup_iters>, pretrain | trained_probe | finetune, "Steps of warm-up.", at_least(0)},
    {"--lr-warmup-samples", to<&F::learning_rate, &LearningRateFlags::warmup_samples>, pretrain, "Samples of warm-up.", at_least(0)},
    {"--lr-warmup-tokens", to<&F::learning_rate, &LearningRateFlags::warmup_tokens>, pretrain, "Tokens of warm-up.", at_least(0)},
    {"--lr-warmup-init", to<&F::learning_rate, &LearningRateFlags::warmup_init>, pretrain | trained_probe | finetune, "Learning rate that warm-up starts from.", at_least(0)},
    {"--lr-wsd-decay-style", to<&F::learning_rate, &LearningRateFlags::wsd_decay_style>, pretrain | trained_probe | finetune, "How the last part of WSD falls."},
    {"--lr-wsd-decay-iters", to<&F::learning_rate, &LearningRateFlags::wsd_decay_iters>, pretrain | trained_probe | finetune, "Steps of the last part of WSD.", at_least(1)},
    {"--lr-wsd-decay-samples", to<&F::learning_rate, &LearningRateFlags::wsd_decay_samples>, pretrain, "Samples of the last part of WSD.", at_least(1)},
    {"--override-opt_param-scheduler", to<&F::learning_rate, &LearningRateFlags::override_scheduler>, pretrain, "Going on from a checkpoint, take the schedule's learning rates and lengths from the flags, as is done without it too.", also("--override-lr-scheduler")},
    {"--use-checkpoint-opt_param-scheduler", to<&F::learning_rate, &LearningRateFlags::use_checkpoint_scheduler>, pretrain, "Take the schedule's learning rates and lengths from the checkpoint that --load names, not from the flags.", also("--use-checkpoint-lr-scheduler")},
};

constexpr Flag checkpointing[] = {
    {"--save", to<&F::checkpointing, &CheckpointFlags::save>, pretrain | merging | finetune, "Folder to save checkpoints in."},
    {"--load", to<&F::checkpointing, &CheckpointFlags::load>, pretrain | generate | merging | evaluate, "Folder to load from; without a checkpoint there, training starts afresh and says so.", also("--load_checkpoint_dir")},
    {"--save-interval", to<&F::checkpointing, &CheckpointFlags::save_interval>, pretrain | finetune, "Steps between checkpoints.", at_least(1), also("--checkpoint_every --persistent-save-interval")},
    {"--keep-last", to<&F::checkpointing, &CheckpointFlags::keep_last>, pretrain | finetune, "Keep only so many of the newest checkpoints.", at_least(1), by_default("all"), same_as("checkpoint.keep_last")},
    {"--keep-every", to<&F::checkpointing, &CheckpointFlags::keep_every>, pretrain | finetune, "Besides, keep those at multiples of so many steps.", at_least(1), also("--save-retain-interval"), same_as("checkpoint.keep_every")},
    {"--ckpt-step", to<&F::checkpointing, &CheckpointFlags::ckpt_step>, pretrain | generate | merging | evaluate, "Load this step instead of the latest.", at_least(0), by_default("the latest")},
    {"--async-save", to<&F::checkpointing, &CheckpointFlags::async_save>, pretrain | finetune, "Write checkpoints while training goes on.", no_effect("checkpoint.async in the JSON file decides, and is on by default")},
    {"--finetune", to<&F::checkpointing, &CheckpointFlags::finetune>, pretrain | finetune, "Load weights only: step 0, fresh optimizer and randomness."},
    {"--no-load-optim", to<&F::checkpointing, &CheckpointFlags::no_load_optim>, pretrain | finetune, "Do not load optimizer state."},
    {"--no-load-rng", to<&F::checkpointing, &CheckpointFlags::no_load_rng>, pretrain | finetune, "Do not load the state of randomness."},
    {"--no-load-lr-state", to<&F::checkpointing, &CheckpointFlags::no_load_lr_state>, pretrain | finetune, "Do not load the state of the schedule."},
    {"--no-save-optim", to<&F::checkpointing, &CheckpointFlags::no_save_optim>, pretrain | finetune, "Do not save optimizer state."},
    {"--no-save-rng", to<&F::checkpointing, &CheckpointFlags::no_save_rng>, pretrain | finetune, "Do not save the state of randomness."},
    {"--exit-on-missing-checkpoint", to<&F::checkpointing, &CheckpointFlags::exit_on_missing_checkpoint>, pretrain | finetune, "Stop when --load finds nothing, instead of starting afresh."},
    {"--pretrained-checkpoint", to<&F::checkpointing, &CheckpointFlags::pretrained_checkpoint>, finetune, "Weights that fine-tuning starts from."},
    {"--checkpoint_dir", to<&F::checkpointing, &CheckpointFlags::checkpoint_dir>, nobody, "Folder that gets a folder per run, with checkpoints, settings and logs."},
};

constexpr Flag mixed_precision[] = {
    {"--fp16", to<&F::precision, &PrecisionFlags::fp16>, pretrain | generate | probe | merging | evaluate, "Train in fp16 with loss scaling.", by_default("off"), same_as("fp16.enabled")},
    {"--bf16", to<&F::precision, &PrecisionFlags::bf16>, pretrain | generate | probe | merging | evaluate, "Train in bf16.", by_default("off"), same_as("bf16.enabled")},
    {"--fp8-format", to<&F::precision, &PrecisionFlags::fp8_format>, pretrain, "Products of the layers in fp8, beside --bf16 or --fp16: gradients as e4m3 too, or as e5m2 (hybrid).", by_default("off")},
    {"--fp8-recipe", to<&F::precision, &PrecisionFlags::fp8_recipe>, pretrain, "How a matrix is brought into fp8's range: by its own largest value (tensorwise), or by those of earlier updates (delayed)."},
    {"--fp8-amax-history-len", to<&F::precision, &PrecisionFlags::fp8_amax_history_len>, pretrain, "Updates whose largest values the recipe delayed keeps.", at_least(1)},
    {"--fp8-amax-compute-algo", to<&F::precision, &PrecisionFlags::fp8_amax_compute_algo>, pretrain, "The largest value that the recipe delayed goes by: that of the last update (most_recent), or the largest of the history (max)."},
    {"--fp8-margin", to<&F::precision, &PrecisionFlags::fp8_margin>, pretrain, "Powers of two that the recipe delayed leaves between the largest value and the end of fp8's range.", at_least(0)},
    {"--first-last-layers-bf16", to<&F::precision, &PrecisionFlags::first_last_layers_bf16>, pretrain, "No fp8 in the first and last layers."},
    {"--num-layers-at-start-in-bf16", to<&F::precision, &PrecisionFlags::layers_at_start_in_bf16>, pretrain, "First layers without fp8, with --first-last-layers-bf16.", at_least(0)},
    {"--num-layers-at-end-in-bf16", to<&F::precision, &PrecisionFlags::layers_at_end_in_bf16>, pretrain, "Last layers without fp8, with --first-last-layers-bf16.", at_least(0)},
    {"--fp32-allreduce", to<&F::precision, &PrecisionFlags::fp32_allreduce>, pretrain | finetune, "Reduce gradients in fp32: communication_data_type in JSON."},
    {"--loss-scale", to<&F::precision, &PrecisionFlags::loss_scale>, pretrain | probe | finetune, "Fixed loss scale; 0 adapts it.", at_least(0), by_default("adapts"), same_as("fp16.loss_scale")},
    {"--initial-loss-scale", to<&F::precision, &PrecisionFlags::initial_loss_scale>, pretrain | probe | finetune, "What the adapting scale starts from, a power of two; its exponent is fp16.initial_scale_power in JSON.", above(0), by_default("65536")},
    {"--min-loss-scale", to<&F::precision, &PrecisionFlags::min_loss_scale>, pretrain | probe | finetune, "The adapting scale never falls below this.", at_least(1), by_default("1"), same_as("fp16.min_loss_scale")},
    {"--loss-scale-window", to<&F::precision, &PrecisionFlags::loss_scale_window>, pretrain | probe | finetune, "Steps before the scale is doubled.", at_least(1), by_default("1000"), same_as("fp16.loss_scale_window")},
    {"--hysteresis", to<&F::precision, &PrecisionFlags::hysteresis>, pretrain | probe | finetune, "Overflows before the scale is halved.", at_least(1), by_default("2"), same_as("fp16.hysteresis")},
    {"--accumulate-allreduce-grads-in-fp32", to<&F::precision, &PrecisionFlags::accumulate_grads_in_fp32>, pretrain | finetune, "Sum up and reduce gradients in fp32: data_types.grad_accum_dtype and communication_data_type in JSON."},
    {"--grad-reduce-in-bf16", to<&F::precision, &PrecisionFlags::reduce_grads_in_bf16>, pretrain | finetune, "Reduce gradients in bf16: communication_data_type in JSON."},
    {"--main-grads-dtype", to<&F::precision, &PrecisionFlags::main_grads_dtype>, pretrain | finetune, "Type in which gradients are summed up. bf16 saves two bytes for each parameter.", by_default("fp32 with bf16, else that of training"), same_as("data_types.grad_accum_dtype")},
    {"--use-precision-aware-optimizer", to<&F::precision, &PrecisionFlags::precision_aware_optimizer>, pretrain | finetune, "The optimizer keeps only the 16 bits of a weight that bf16 drops: two bytes less for each parameter, and nothing is lost.", same_as("data_types.precision_aware_optimizer")},
    {"--exp-avg-dtype", to<&F::precision, &PrecisionFlags::exp_avg_dtype>, pretrain | finetune, "Type of the optimizer's first state, with --use-precision-aware-optimizer: fp32, or bf16 that is rounded by chance.", same_as("data_types.exp_avg_dtype")},
    {"--exp-avg-sq-dtype", to<&F::precision, &PrecisionFlags::exp_avg_sq_dtype>, pretrain | finetune, "The same for its second state.", same_as("data_types.exp_avg_sq_dtype")},
    {"--attention-softmax-in-fp32", to<&F::precision, &PrecisionFlags::attention_softmax_in_fp32>, pretrain | finetune, "Softmax of attention in fp32."},
};

constexpr Flag distributed[] = {
    {"--tensor-model-parallel-size", to<&F::distributed, &DistributedFlags::tensor_parallel>, pretrain | generate | probe | merging | evaluate, "Ranks that split every layer.", at_least(1), also("--model-parallel-size", "is the old name of --tensor-model-parallel-size")},
    {"--pipeline-model-parallel-size", to<&F::distributed, &DistributedFlags::pipeline_parallel>, pretrain | generate | probe | merging | evaluate, "Stages that the layers are shared out to.", at_least(1), same_as("pipeline.stages")},
    {"--context-parallel-size", to<&F::distributed, &DistributedFlags::context_parallel>, pretrain, "Ranks that share one sequence.", at_least(1)},
    {"--ds-sequence-parallel-size", to<&F::distributed, &DistributedFlags::ds_sequence_parallel>, pretrain, "The same by exchange of heads, as DeepSpeed's.", at_least(1)},
    {"--cp-comm-type", to<&F::distributed, &DistributedFlags::context_parallel_kind>, pretrain, "Ring attention (p2p), or exchange of heads as Ulysses (a2a)."},
    {"--expert-model-parallel-size", to<&F::distributed, &DistributedFlags::expert_parallel>, pretrain | evaluate, "Ranks that share out the experts.", at_least(1), also("--moe-expert-parallel-size")},
    {"--sequence-parallel", to<&F::distributed, &DistributedFlags::sequence_parallel>, pretrain | probe | finetune, "Split norms and dropout along the sequence over the tensor-parallel ranks."},
    {"--tp-comm-overlap", to<&F::distributed, &DistributedFlags::tp_comm_overlap>, pretrain | finetune, "With --sequence-parallel: tokens travel between the tensor-parallel ranks while products of other tokens are computed."},
    {"--num-layers-per-virtual-pipeline-stage", to<&F::distributed, &DistributedFlags::layers_per_virtual_stage>, pretrain | probe | finetune, "Layers per virtual stage of the interleaved schedule, which this chooses.", at_least(1)},
    {"--num-virtual-stages-per-pipeline-rank", to<&F::distributed, &DistributedFlags::virtual_stages>, pretrain | probe | finetune, "The same by their number.", at_least(1)},
    {"--num-layers-in-first-pipeline-stage", to<&F::distributed, &DistributedFlags::layers_in_first_stage>, pretrain | probe | evaluate, "Layers of the first stage; the other stages share the rest.", at_least(1), also("--decoder-first-pipeline-num-layers")},
    {"--num-layers-in-last-pipeline-stage", to<&F::distributed, &DistributedFlags::layers_in_last_stage>, pretrain | probe | evaluate, "Layers of the last stage.", at_least(1), also("--decoder-last-pipeline-num-layers")},
    {"--account-for-embedding-in-pipeline-split", to<&F::distributed, &DistributedFlags::embedding_counts_as_layer>, pretrain | probe | evaluate, "The first stage has one layer less: the embedding counts as one."},
    {"--account-for-loss-in-pipeline-split", to<&F::distributed, &DistributedFlags::loss_counts_as_layer>, pretrain | probe | evaluate, "The last stage has one layer less: the loss counts as one."},
    {"--pipeline-model-parallel-layout", to<&F::distributed, &DistributedFlags::pipeline_layout>, pretrain | probe | evaluate, "The layers of every stage: \"E|(t|)*3,tt|L\" has the embedding, blocks (t) and the loss."},
    {"--pipeline-schedule", to<&F::distributed, &DistributedFlags::pipeline_schedule>, pretrain | probe | finetune, "Order of work in the pipeline."},
    {"--no-pipeline-parallel", to<&F::distributed, &DistributedFlags::no_pipeline_parallel>, pretrain | probe | finetune, "The plain engine, even where a pipeline of one stage would do."},
    {"--DDP-impl", to<&F::distributed, &DistributedFlags::ddp_impl>, pretrain | finetune, "Reduce gradients after backward (local), or overlapped (torch): zero_optimization.overlap_comm in JSON."},
    {"--overlap-grad-reduce", to<&F::distributed, &DistributedFlags::overlap_grad_reduce>, pretrain | finetune, "The same as --DDP-impl torch."},
    {"--overlap-param-gather", to<&F::distributed, &DistributedFlags::overlap_param_gather>, pretrain | finetune, "Gather updated parameters while the next forward runs (ZeRO stages 1 and 2); offloaded states that are updated on the GPU visit it then, too."},
    {"--use-distributed-optimizer", to<&F::distributed, &DistributedFlags::use_distributed_optimizer>, pretrain | finetune, "Partition optimizer state: the same as --zero-stage 1."},
    {"--use-nccl-ub", to<&F::distributed, &DistributedFlags::nccl_ub>, pretrain | finetune, "Buffers of gradients and parameters are registered with NCCL, which sends from them without a copy."},
    {"--distributed-backend", to<&F::distributed, &DistributedFlags::backend>, pretrain | generate | probe | evaluate, "Library for collectives.", by_default("nccl on GPUs, gloo on CPUs")},
    {"--distributed-timeout-minutes", to<&F::distributed, &DistributedFlags::timeout_minutes>, pretrain | probe | evaluate, "Minutes after which a collective has failed.", at_least(1)},
    {"--local_rank", to<&F::distributed, &DistributedFlags::local_rank>, pretrain | generate | probe | evaluate, "Rank within the node, filled in by the launcher; -1: none.", at_least(-1)},
};

constexpr Flag validation[] = {
    {"--eval-iters", to<&F::validation, &ValidationFlags::eval_iters>, pretrain | finetune, "Batches per evaluation.", at_least(0)},
    {"--eval-interval", to<&F::validation, &ValidationFlags::eval_interval>, pretrain | finetune, "Steps between evaluations.", at_least(1)},
    {"--skip-train", to<&F::validation, &ValidationFlags::skip_train>, pretrain, "Evaluate only."},
    {"--task", to<&F::validation, &ValidationFlags::task>, evaluate, "What to evaluate or fine-tune on.", one_of("WIKITEXT103 LAMBADA HELLASWAG PPL RACE MNLI QQP QNLI SST-2 CoLA STS-B MRPC RTE")},
    {"--train-data", to<&F::validation, &ValidationFlags::train_data>, finetune | pretrain, "Training files of a task. In pretraining names of corpora, as `webtext`: webtext_text_document, here or in data/."},
    {"--valid-data", to<&F::validation, &ValidationFlags::valid_data>, evaluate, "Validation files of a task."},
    {"--epochs", to<&F::validation, &ValidationFlags::epochs>, finetune, "Passes over the training files of a task.", at_least(0)},
    {"--overlapping-eval", to<&F::validation, &ValidationFlags::overlapping_eval>, evaluate, "Tokens by which the window moves that is scored at a time (WIKITEXT103, PPL).", at_least(1), by_default("32; with PPL --seq-length")},
    {"--strict-lambada", to<&F::validation, &ValidationFlags::strict_lambada>, evaluate, "The last word counts as a whole, not its last token alone (LAMBADA)."},
    {"--hellaswag-plain", to<&F::validation, &ValidationFlags::hellaswag_plain>, Actor::evaluate, "Contexts and endings as the file has them, as in llm.c, without the changes of lm-evaluation-harness (HELLASWAG)."},
    {"--output", to<&F::validation, &ValidationFlags::output>, evaluate, "File for the results as JSON."},
};

constexpr Flag data[] = {
    {"--data-path", to<&F::data, &DataFlags::data_path>, pretrain | Actor::evaluate, "Prefix of the .bin and .idx files, or weights and prefixes in turn."},
    {"--train-data-path", to<&F::data, &DataFlags::train_data_path>, pretrain, "The same for training only."},
    {"--valid-data-path", to<&F::data, &DataFlags::valid_data_path>, pretrain, "The same for validation only."},
    {"--test-data-path", to<&F::data, &DataFlags::test_data_path>, pretrain, "The same for testing only."},
    {"--split", to<&F::data, &DataFlags::split>, pretrain, "Shares of training, validation and test."},
    {"--data-impl", to<&F::data, &DataFlags::impl>, preprocess | pretrain, "Format of the data files; in training they say it themselves.", also("--dataset-impl")},
    {"--data-cache-path", to<&F::data, &DataFlags::cache_path>, pretrain, "Folder for index files.", by_default("beside the data")},
    {"--num-workers", to<&F::data, &DataFlags::num_workers>, pretrain, "Threads that read ahead.", at_least(0)},
    {"--dataloader-type", to<&F::data, &DataFlags::loader>, pretrain, "One pass in order, or shuffled passes."},
    {"--lazy-loader", to<&F::data, &DataFlags::lazy_loader>, pretrain, "Read documents when they are needed.", no_effect("data is always mapped, never read ahead of need")},
    {"--mock-data", to<&F::data, &DataFlags::mock_data>, pretrain, "Random tokens in place of --data-path, to measure speed."},
    {"--seq-length", to<&F::data, &DataFlags::seq_length>, pretrain | generate | evaluate, "Tokens per sample.", at_least(1), also("--max_seq_length")},
    {"--encoder-seq-length", to<&F::data, &DataFlags::encoder_seq_length>, pretrain, "Tokens for the encoder (T5).", at_least(1), by_default("--seq-length")},
    {"--decoder-seq-length", to<&F::data, &DataFlags::decoder_seq_length>, pretrain, "Tokens for the decoder (T5).", at_least(1)},
    {"--mask-prob", to<&F::data, &DataFlags::mask_prob>, pretrain, "Part of the tokens that is masked (BERT, T5).", between(0, 1)},
    {"--short-seq-prob", to<&F::data, &DataFlags::short_seq_prob>, pretrain, "Part of the samples made short (BERT).", between(0, 1)},
    {"--reset-position-ids", to<&F::data, &DataFlags::reset_position_ids>, pretrain, "Count positions anew after each document."},
    {"--reset-attention-mask", to<&F::data, &DataFlags::reset_attention_mask>, pretrain, "Keep attention within a document."},
    {"--eod-mask-loss", to<&F::data, &DataFlags::eod_mask_loss>, pretrain, "Leave ends of documents out of the loss."},
    {"--random-ltd", to<&F::data, &DataFlags::random_ltd>, pretrain, "Drop tokens in some layers, as data_efficiency of the JSON file says."},
};

constexpr Flag preprocessing[] = {
    {"--input", to<&F::preprocess, &PreprocessFlags::input>, preprocess, "Files with one JSON object per line."},
    {"--output-prefix", to<&F::preprocess, &PreprocessFlags::output_prefix>, preprocess, "Start of the names of the files written."},
    {"--json-keys", to<&F::preprocess, &PreprocessFlags::json_keys>, preprocess | Actor::evaluate, "Fields that hold text.", also("--json-key")},
    {"--split-sentences", to<&F::preprocess, &PreprocessFlags::split_sentences>, preprocess, "Store sentences instead of documents (BERT)."},
    {"--keep-newlines", to<&F::preprocess, &PreprocessFlags::keep_newlines>, preprocess, "Keep line ends when splitting sentences."},
    {"--lang", to<&F::preprocess, &PreprocessFlags::lang>, preprocess, "Language of the sentences."},
    {"--append-eod", to<&F::preprocess, &PreprocessFlags::append_eod>, preprocess, "End each document with the end-of-document token."},
    {"--workers", to<&F::preprocess, &PreprocessFlags::workers>, preprocess, "Threads.", at_least(1)},
    {"--partitions", to<&F::preprocess, &PreprocessFlags::partitions>, preprocess, "Parts the input is worked on in.", at_least(1)},
};

constexpr Flag tokenizer[] = {
    {"--tokenizer-type", to<&F::tokenizer, &TokenizerFlags::type>, pretrain | generate | preprocess | evaluate, "Kind of tokenizer.", one_of("GPT2BPETokenizer BertWordPieceLowerCase BertWordPieceCase RobertaTokenizer SentencePieceTokenizer GPTSentencePieceTokenizer Llama2Tokenizer HuggingFaceTokenizer HFTokenizer TikTokenizer CharTokenizer NullTokenizer")},
    {"--vocab-file", to<&F::tokenizer, &TokenizerFlags::vocab_file>, pretrain | generate | preprocess | evaluate, "Its vocabulary.", also("--vocab")},
    {"--merge-file", to<&F::tokenizer, &TokenizerFlags::merge_file>, pretrain | generate | preprocess | evaluate, "Its merges."},
    {"--tokenizer-model", to<&F::tokenizer, &TokenizerFlags::model>, pretrain | generate | preprocess | evaluate, "Its model file or folder."},
    {"--vocab-size", to<&F::tokenizer, &TokenizerFlags::vocab_size>, pretrain | generate | preprocess | merging | evaluate, "Size of the vocabulary before padding.", at_least(1), by_default("the tokenizer's")},
    {"--vocab-extra-ids", to<&F::tokenizer, &TokenizerFlags::vocab_extra_ids>, pretrain | generate | preprocess | evaluate, "Sentinel tokens to add (T5).", at_least(0)},
    {"--tiktoken-pattern", to<&F::tokenizer, &TokenizerFlags::tiktoken_pattern>, pretrain | generate | preprocess | evaluate, "TikTokenizer: where words end.", one_of("v1 v2")},
    {"--tiktoken-num-special-tokens", to<&F::tokenizer, &TokenizerFlags::tiktoken_num_special_tokens>, pretrain | generate | preprocess | evaluate, "TikTokenizer: the first ids, which are special tokens.", at_least(7)},
    {"--tiktoken-special-tokens", to<&F::tokenizer, &TokenizerFlags::tiktoken_special_tokens>, pretrain | generate | preprocess | evaluate, "TikTokenizer: names of the first special tokens.", by_default("<unk> <s> </s> <mask> <pad> <cls> <sep>")},
};

constexpr Flag logging[] = {
    {"--log-interval", to<&F::logging, &LoggingFlags::log_interval>, pretrain | preprocess | evaluate, "Steps (or documents) between log lines.", at_least(1), also("--log_every")},
    {"--log-rank", to<&F::logging, &LoggingFlags::log_rank>, pretrain, "Rank that shows the losses and writes their files: the first, or the last as in Megatron-LM.", one_of("first last")},
    {"--log-jsonl", to<&F::logging, &LoggingFlags::jsonl>, pretrain | finetune, "File that gets one JSON object per logged step, for `cairn report`; \"\" for none.", by_default("log.jsonl in the folder of --save")},
    {"--peak-tflops", to<&F::logging, &LoggingFlags::peak_tflops>, pretrain, "What one device can do at most, for the utilisation (MFU).", above(0), by_default("known for common GPUs")},
    {"--tensorboard-dir", to<&F::logging, &LoggingFlags::tensorboard_dir>, pretrain | finetune, "Folder for TensorBoard event files."},
    {"--tensorboard-log-interval", to<&F::logging, &LoggingFlags::tensorboard_log_interval>, pretrain | finetune, "Steps between entries.", at_least(1)},
    {"--tensorboard-queue-size", to<&F::logging, &LoggingFlags::tensorboard_queue_size>, pretrain | finetune, "Entries held before they are written.", at_least(1)},
    {"--log-timers-to-tensorboard", to<&F::logging, &LoggingFlags::timers_to_tensorboard>, pretrain, "Write timers."},
    {"--log-batch-size-to-tensorboard", to<&F::logging, &LoggingFlags::batch_size_to_tensorboard>, pretrain | finetune, "Write the batch size."},
    {"--no-log-learning-rate-to-tensorboard", to<&F::logging, &LoggingFlags::learning_rate_to_tensorboard>, pretrain | finetune, "Do not write the learning rate.", turns_off(), also("--no-log-learnig-rate-to-tensorboard")},
    {"--no-log-loss-scale-to-tensorboard", to<&F::logging, &LoggingFlags::loss_scale_to_tensorboard>, pretrain | finetune, "Do not write the loss scale.", turns_off(), also("--disable-log-loss-scale-to-tensorboard")},
    {"--log-validation-ppl-to-tensorboard", to<&F::logging, &LoggingFlags::validation_ppl_to_tensorboard>, pretrain | finetune, "Write validation perplexity."},
    {"--log-optimizer-states-to-tensorboard", to<&F::logging, &LoggingFlags::optimizer_states_to_tensorboard>, pretrain, "Write norms of the optimizer's moments."},
    {"--log-memory-to-tensorboard", to<&F::logging, &LoggingFlags::memory_to_tensorboard>, pretrain, "Write memory in use."},
    {"--log-world-size-to-tensorboard", to<&F::logging, &LoggingFlags::world_size_to_tensorboard>, pretrain | finetune, "Write the world size."},
    {"--log-params-norm", to<&F::logging, &LoggingFlags::params_norm>, pretrain, "Log the norm of all parameters."},
    {"--log-num-zeros-in-grad", to<&F::logging, &LoggingFlags::num_zeros_in_grad>, pretrain, "Log how many gradients are zero."},
    {"--log-throughput", to<&F::logging, &LoggingFlags::throughput>, pretrain, "Log TFLOP/s and tokens/s.", no_effect("every iteration line has them")},
    {"--timing-log-level", to<&F::logging, &LoggingFlags::timing_log_level>, pretrain, "Log where the time of a step goes (1), in more detail (2).", between(0, 2)},
    {"--timing-log-option", to<&F::logging, &LoggingFlags::timing_log_option>, pretrain, "Which ranks' times are shown.", one_of("max minmax all"), by_default("those of rank 0, in one line")},
    {"--profile", to<&F::logging, &LoggingFlags::profile>, pretrain, "Write profiler traces of the chosen steps.", also("--use-pytorch-profiler")},
    {"--profile-steps", to<&F::logging, &LoggingFlags::profile_steps>, pretrain, "Steps to trace: \"2-4 7-9\" or \"2,4\"."},
    {"--profile-step-start", to<&F::logging, &LoggingFlags::profile_step_start>, pretrain, "First step to trace.", at_least(0)},
    {"--profile-step-end", to<&F::logging, &LoggingFlags::profile_step_end>, pretrain, "Step to stop tracing at.", at_least(0)},
    {"--profile-ranks", to<&F::logging, &LoggingFlags::profile_ranks>, pretrain, "Ranks to trace.", at_least(0)},
};

constexpr Flag text_generation[] = {
    {"--out-seq-length", to<&F::generation, &GenerationFlags::out_seq_length>, generate, "Tokens to write at most, after the prompt.", at_least(1)},
    {"--temperature", to<&F::generation, &GenerationFlags::temperature>, generate, "Below 1 likely tokens become likelier, above 1 less so.", above(0)},
    {"--greedy", to<&F::generation, &GenerationFlags::greedy>, generate, "Always take the likeliest token."},
    {"--top_k", to<&F::generation, &GenerationFlags::top_k>, generate, "Sample from so many likeliest tokens; 0: all.", at_least(0)},
    {"--top_p", to<&F::generation, &GenerationFlags::top_p>, generate, "Sample from the likeliest tokens that make up this much; 0: all.", between(0, 1)},
    {"--top-p-decay", to<&F::generation, &GenerationFlags::top_p_decay>, generate, "Multiply --top_p by this after every token; 0: it stays.", between(0, 1)},
    {"--top-p-bound", to<&F::generation, &GenerationFlags::top_p_bound>, generate, "Never let --top-p-decay bring --top_p below this.", between(0, 1)},
    {"--repetition-penalty", to<&F::generation, &GenerationFlags::repetition_penalty>, generate, "Above 1, tokens that the text has already become less likely.", above(0)},
    {"--beam-width", to<&F::generation, &GenerationFlags::beam_width>, generate, "Search for the likeliest text with so many beams; 0: sample one token at a time.", at_least(0)},
    {"--length-penalty", to<&F::generation, &GenerationFlags::length_penalty>, generate, "Divide a beam's score by its length to this power; above 1 favours long texts."},
    {"--stop", to<&F::generation, &GenerationFlags::stop>, generate, "Words that end a text; they are cut off."},
    {"--stop-token-ids", to<&F::generation, &GenerationFlags::stop_token_ids>, generate, "Tokens that end a text, besides its end token.", at_least(0)},
    {"--prompt-ids", to<&F::generation, &GenerationFlags::prompt_ids>, generate, "Token ids as the prompt, as in 5,17,3; prints a JSON object with the ids that follow, and needs no tokenizer."},
    {"--return-log-probs", to<&F::generation, &GenerationFlags::return_log_probs>, generate, "Write the log-probability of every token as well."},
    {"--top-n-logprobs", to<&F::generation, &GenerationFlags::top_n_logprobs>, generate, "Write the log-probabilities of so many likeliest tokens beside every token.", at_least(0)},
    {"--weight-type", to<&F::generation, &GenerationFlags::weight_type>, generate | Actor::evaluate, "Numbers that hold the weights; a GPU takes no int8.", one_of("fp32 bf16 int8"), by_default("fp32; with --bf16 bf16")},
    {"--device", to<&F::generation, &GenerationFlags::device>, generate, "Where to compute: on the GPU if there is one, or on the CPU with the weights in host memory, for models that the GPU cannot hold.", one_of("auto cpu")},
    {"--num-samples", to<&F::generation, &GenerationFlags::num_samples>, generate, "Texts to make without a prompt.", at_least(0)},
    {"--genfile", to<&F::generation, &GenerationFlags::genfile>, generate, "File for those texts, in lines of JSON."},
    {"--sample-input-file", to<&F::generation, &GenerationFlags::sample_input_file>, generate, "File with one prompt per line."},
    {"--sample-output-file", to<&F::generation, &GenerationFlags::sample_output_file>, generate, "File for what follows them, in lines of JSON.", by_default("the input file's name + .out")},
    {"--recompute", to<&F::generation, &GenerationFlags::recompute>, generate, "Compute the whole text anew for every token instead of keeping keys and values."},
    {"--port", to<&F::generation, &GenerationFlags::port>, nobody, "Port of the server.", between(0, 65535)},
};

constexpr Flag checkpoint_conversion[] = {
    {"--model-type", to<&F::conversion, &ConversionFlags::model_type>, merging, "Kind of model in the checkpoint.", one_of("GPT BERT T5 Llama")},
    {"--target-tensor-model-parallel-size", to<&F::conversion, &ConversionFlags::target_tensor_parallel>, merging, "Tensor-parallel size wanted.", at_least(1)},
    {"--target-pipeline-model-parallel-size", to<&F::conversion, &ConversionFlags::target_pipeline_parallel>, merging, "Pipeline size wanted.", at_least(1)},
};

constexpr Flag deepspeed[] = {
    {"--deepspeed", to<&F::deepspeed, &DeepSpeedFlags::deepspeed>, pretrain | generate | probe | evaluate, "Train with the engine.", also("--deepscale", "is the old name of --deepspeed")},
    {"--deepspeed_config", to<&F::deepspeed, &DeepSpeedFlags::config>, pretrain | generate | probe | evaluate, "DeepSpeed JSON file.", also("--deepscale_config", "is the old name of --deepspeed_config")},
    {"--zero-stage", to<&F::deepspeed, &DeepSpeedFlags::zero_stage>, pretrain | probe | finetune, "What ZeRO partitions, 0 to 3.", between(0, 3), by_default("0"), same_as("zero_optimization.stage")},
    {"--zero-reduce-bucket-size", to<&F::deepspeed, &DeepSpeedFlags::zero_reduce_bucket_size>, pretrain | probe | finetune, "Elements reduced at a time.", at_least(0), by_default("5e8"), same_as("zero_optimization.reduce_bucket_size")},
    {"--zero-allgather-bucket-size", to<&F::deepspeed, &DeepSpeedFlags::zero_allgather_bucket_size>, pretrain | probe | finetune, "Elements gathered at a time.", at_least(0), by_default("5e8"), same_as("zero_optimization.allgather_bucket_size")},
    {"--optimizer-cpu-offload", to<&F::deepspeed, &DeepSpeedFlags::optimizer_cpu_offload>, pretrain | finetune, "Keep the optimizer's states in the CPU's memory: zero_optimization.offload_optimizer.device cpu in JSON.", also("--cpu-optimizer")},
    {"--optimizer-offload-fraction", to<&F::deepspeed, &DeepSpeedFlags::optimizer_offload_fraction>, pretrain | finetune, "Part of the states that leave the GPU: zero_optimization.offload_optimizer.ratio in JSON.", between(0, 1), by_default("1")},
    {"--offload-update-on", to<&F::deepspeed, &DeepSpeedFlags::offload_update_on>, pretrain | finetune, "Where the update of offloaded states is computed: on the CPU, on the GPU, or where it is measured to be faster at the start. zero_optimization.offload_optimizer.update_on in JSON.", by_default("cpu, or gpu if a part of them stays on the GPU")},
};
// clang-format on

constexpr FlagGroup groups[] = {
    {"model", model},
    {"mixture of experts", mixture_of_experts},
    {"training", training},
    {"regularization", regularization},
    {"learning rate", learning_rate},
    {"checkpointing", checkpointing},
    {"mixed precision", mixed_precision},
    {"distributed", distributed},
    {"validation", validation},
    {"data", data},
    {"preprocessing", preprocessing},
    {"tokenizer", tokenizer},
    {"logging", logging},
    {"text generation", text_generation},
    {"checkpoint conversion", checkpoint_conversion},
    {"DeepSpeed", deepspeed},
};

} // namespace table_of_flags

std::span<const FlagGroup> flag_groups() {
  return table_of_flags::groups;
}

} // namespace cairn::config
