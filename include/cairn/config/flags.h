#pragma once

#include <cairn/config/precision_config.h>
#include <cairn/config/zero_config.h>
#include <cairn/model/description.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The command line as typed values, one struct per group of `--help`. The table
// in src/config/flags/flag_rows.cpp binds every flag to its member here and is
// the only list of flag names. Flags with a JSON counterpart are optional here
// and, once a Config is resolved, hold the value that both agree on.

namespace cairn::config {

enum class PositionEmbedding { learned_absolute, rope, relative, none };

struct ModelFlags {
  std::optional<std::int64_t> num_layers;
  std::optional<std::int64_t> encoder_num_layers;
  std::optional<std::int64_t> decoder_num_layers;
  std::optional<std::int64_t> hidden_size;
  std::optional<std::int64_t> ffn_hidden_size; ///< absent: 4 x hidden_size
  std::optional<std::int64_t> num_attention_heads;
  std::optional<std::int64_t> num_key_value_heads;
  bool group_query_attention = false;
  std::optional<std::int64_t> kv_channels; ///< absent: hidden_size / heads
  std::optional<std::int64_t> max_position_embeddings;
  PositionEmbedding position_embedding = PositionEmbedding::learned_absolute;
  bool use_rotary_position_embeddings = false;
  bool no_position_embedding = false;
  double rotary_base = 10000;
  double rotary_percent = 1.0;
  bool use_rope_scaling = false; ///< as Llama 3.1 has it
  double rope_scaling_factor = 8;
  std::int64_t relative_attention_num_buckets = 32;
  std::int64_t relative_attention_max_distance = 128;
  model::NormKind normalization = model::NormKind::layer_norm;
  double norm_epsilon = 1e-5;
  bool swiglu = false;
  bool openai_gelu = false;
  bool exact_gelu = false; ///< Megatron's GELU where it is not fused
  bool squared_relu = false;
  bool disable_bias_linear = false;
  bool add_qkv_bias = false;
  bool qk_layernorm = false;
  bool parallel_residual = false;
  bool untie_embeddings = false;
  std::int64_t make_vocab_size_divisible_by = 128;
  bool bert_binary_head = true;
  bool use_flash_attn = false;
  double init_method_std = 0.02;
};

struct MoeFlags {
  std::vector<std::int64_t> num_experts;
  std::int64_t topk = 1;
  std::string mlp_type = "standard";
  double loss_coeff = 0.1;
  double train_capacity_factor = 1.0;
  double eval_capacity_factor = 1.0;
  std::int64_t min_capacity = 4;
  std::int64_t expert_interval = 2;
  std::optional<std::int64_t> layer_frequency;
  bool token_dropping = true;
  bool random_token_selection = true;
  bool second_expert_sampling = true;
  model::RouterNoise noise = model::RouterNoise::none;
};

enum class RecomputeGranularity { full, selective };
enum class RecomputeMethod { uniform, block };
enum class OptimizerKind { adam, adamw, sgd, adagrad, lamb, lion, muon };

enum class CudaGraphs { none, local };

struct TrainingFlags {
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> global_batch_size;
  std::vector<std::int64_t> rampup_batch_size; ///< start, increment, samples
  std::vector<std::string> batch_size_steps;   ///< "0:16", "2.4B:320", …
  std::optional<std::int64_t> train_iters;
  std::optional<std::int64_t> train_samples;
  std::optional<std::int64_t> train_tokens;
  std::optional<std::int64_t> exit_interval;
  std::optional<std::int64_t> exit_duration_in_mins;
  bool exit_signal_handler = false;
  std::int64_t seed = 1234;
  bool deterministic = false;
  bool checkpoint_activations = false;
  bool deepspeed_activation_checkpointing = false;
  bool recompute_activations = false;
  std::optional<RecomputeGranularity> recompute_granularity;
  std::optional<RecomputeMethod> recompute_method;
  std::optional<std::int64_t> recompute_num_layers;
  std::vector<std::string> recompute_modules;
  bool partition_activations = false;
  bool checkpoint_in_cpu = false;
  std::optional<OptimizerKind> optimizer;
  bool check_for_nan = true;
  bool per_token_loss = false;
  CudaGraphs cuda_graphs = CudaGraphs::none;
  bool enable_cuda_graph = false;
  std::int64_t cuda_graph_warmup_steps = 3;

  bool recomputes_layers() const {
    return checkpoint_activations ||
        recompute_granularity == RecomputeGranularity::full;
  }
  bool recomputes_parts() const {
    return recompute_activations ||
        recompute_granularity == RecomputeGranularity::selective;
  }
};

enum class WeightDecayStyle { constant, linear, cosine };

struct RegularizationFlags {
  double attention_dropout = 0.1;
  double hidden_dropout = 0.1;
  std::optional<double> weight_decay;
  std::optional<double> start_weight_decay;
  std::optional<double> end_weight_decay;
  WeightDecayStyle weight_decay_incr_style = WeightDecayStyle::constant;
  std::optional<double> clip_grad;
  std::optional<double> adam_beta1;
  std::optional<double> adam_beta2;
  std::optional<double> adam_eps;
  std::optional<double> momentum; ///< SGD's or Muon's
};

enum class LrDecayStyle { constant, linear, cosine, inverse_square_root, wsd };
enum class WsdDecayStyle { exponential, linear, cosine, minus_sqrt };

struct LearningRateFlags {
  std::optional<double> lr;
  double min_lr = 0.0;
  /// The largest and the smallest rate of the word embeddings and the output
  /// layer. Unset: they learn at the rates above.
  std::optional<double> decoupled_lr;
  std::optional<double> decoupled_min_lr;
  LrDecayStyle decay_style = LrDecayStyle::linear;
  std::optional<std::int64_t> decay_iters;
  std::optional<std::int64_t> decay_samples;
  std::optional<std::int64_t> decay_tokens;
  std::optional<double> warmup_fraction;
  std::int64_t warmup_iters = 0;
  std::int64_t warmup_samples = 0;
  std::int64_t warmup_tokens = 0;
  double warmup_init = 0.0;
  WsdDecayStyle wsd_decay_style = WsdDecayStyle::exponential;
  std::optional<std::int64_t> wsd_decay_iters;
  std::optional<std::int64_t> wsd_decay_samples;
  bool override_scheduler = false;
  bool use_checkpoint_scheduler = false;
};

struct CheckpointFlags {
  std::optional<std::string> save;
  std::optional<std::string> load;
  std::optional<std::int64_t> save_interval;
  std::optional<std::int64_t> keep_last;
  std::optional<std::int64_t> keep_every;
  std::optional<std::int64_t> ckpt_step;
  bool async_save = false;
  bool finetune = false;
  bool no_load_optim = false;
  bool no_load_rng = false;
  bool no_load_lr_state = false;
  bool no_save_optim = false;
  bool no_save_rng = false;
  bool exit_on_missing_checkpoint = false;
  std::optional<std::string> pretrained_checkpoint;
  std::optional<std::string> checkpoint_dir; ///< parent of run folders
};

enum class Fp8Format { e4m3, hybrid };
enum class Fp8Recipe { tensorwise, delayed, blockwise, mxfp8 };

/// How `delayed` finds a matrix's range in the largest values of earlier steps.
enum class Fp8AmaxAlgo { most_recent, max };

struct PrecisionFlags {
  std::optional<bool> fp16;
  std::optional<bool> bf16;
  std::optional<Fp8Format> fp8_format;
  Fp8Recipe fp8_recipe = Fp8Recipe::tensorwise;
  Fp8AmaxAlgo fp8_amax_compute_algo = Fp8AmaxAlgo::most_recent;
  std::int64_t fp8_amax_history_len = 1;
  std::int64_t fp8_margin = 0; ///< powers of two below fp8's range
  bool first_last_layers_bf16 = false;
  std::int64_t layers_at_start_in_bf16 = 1;
  std::int64_t layers_at_end_in_bf16 = 1;
  bool fp32_allreduce = false;
  std::optional<double> loss_scale;
  std::optional<double> initial_loss_scale;
  std::optional<std::int64_t> min_loss_scale;
  std::optional<std::int64_t> loss_scale_window;
  std::optional<std::int64_t> hysteresis;
  bool accumulate_grads_in_fp32 = false;
  bool reduce_grads_in_bf16 = false;
  std::optional<DataType> main_grads_dtype;
  bool precision_aware_optimizer = false;
  DataType exp_avg_dtype = DataType::fp32;
  DataType exp_avg_sq_dtype = DataType::fp32;
  bool attention_softmax_in_fp32 = false;
};

enum class DdpImpl { local, torch };
enum class Backend { nccl, gloo, local };
enum class ContextParallelKind { ring, ulysses };
enum class PipelineSchedule { gpipe, one_f_one_b, interleaved, zero_bubble };

struct DistributedFlags {
  std::int64_t tensor_parallel = 1;
  std::int64_t pipeline_parallel = 1;
  std::int64_t context_parallel = 1;
  /// --ds-sequence-parallel-size, until it is moved to context_parallel.
  std::optional<std::int64_t> ds_sequence_parallel;
  std::int64_t expert_parallel = 1;
  ContextParallelKind context_parallel_kind = ContextParallelKind::ring;
  bool sequence_parallel = false;
  bool tp_comm_overlap = false;
  std::optional<std::int64_t> layers_per_virtual_stage;
  std::optional<std::int64_t> virtual_stages; ///< of each rank
  std::optional<std::int64_t> layers_in_first_stage;
  std::optional<std::int64_t> layers_in_last_stage;
  bool embedding_counts_as_layer = false; ///< in the cut of a pipeline
  bool loss_counts_as_layer = false;
  std::optional<std::string> pipeline_layout; ///< "E|t|t|L"
  PipelineSchedule pipeline_schedule = PipelineSchedule::one_f_one_b;
  bool no_pipeline_parallel = false;
  DdpImpl ddp_impl = DdpImpl::torch;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  bool use_distributed_optimizer = false;
  bool nccl_ub = false; ///< communication buffers are registered with NCCL
  std::optional<Backend> backend; ///< absent: nccl on GPUs, gloo on CPUs
  std::int64_t timeout_minutes = 10;
  std::int64_t local_rank = -1; ///< -1: not started by a launcher

  bool has_virtual_stages() const {
    return layers_per_virtual_stage || virtual_stages;
  }
};

struct ValidationFlags {
  std::int64_t eval_iters = 100;
  std::int64_t eval_interval = 1000;
  bool skip_train = false;
  std::optional<std::string> task;
  std::vector<std::string> train_data;
  std::vector<std::string> valid_data;
  std::optional<std::int64_t> epochs;
  std::int64_t overlapping_eval = 32;
  bool strict_lambada = false;
  bool hellaswag_plain = false;
  std::optional<std::string> output;
};

enum class DatasetImpl { mmap, cached, lazy, infer };
enum class LoaderType { single, cyclic };

struct DataFlags {
  std::vector<std::string> data_path;
  std::vector<std::string> train_data_path;
  std::vector<std::string> valid_data_path;
  std::vector<std::string> test_data_path;
  std::string split = "969,30,1";
  DatasetImpl impl = DatasetImpl::mmap;
  std::optional<std::string> cache_path;
  std::int64_t num_workers = 2;
  LoaderType loader = LoaderType::single;
  bool lazy_loader = false;
  bool mock_data = false;
  std::optional<std::int64_t> seq_length;
  std::optional<std::int64_t> encoder_seq_length;
  std::optional<std::int64_t> decoder_seq_length;
  double mask_prob = 0.15;
  double short_seq_prob = 0.1;
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  bool eod_mask_loss = false;
  bool random_ltd = false;
};

struct PreprocessFlags {
  std::vector<std::string> input;
  std::optional<std::string> output_prefix;
  std::vector<std::string> json_keys{"text"};
  bool split_sentences = false;
  bool keep_newlines = false;
  bool append_eod = false;
  std::string lang = "english";
  std::int64_t workers = 1;
  std::int64_t partitions = 1;
};

struct TokenizerFlags {
  std::optional<std::string> type;
  std::optional<std::string> vocab_file;
  std::optional<std::string> merge_file;
  std::optional<std::string> model;
  std::optional<std::int64_t> vocab_size;
  std::int64_t vocab_extra_ids = 0;
  std::string tiktoken_pattern = "v2";
  std::int64_t tiktoken_num_special_tokens = 1000;
  std::vector<std::string> tiktoken_special_tokens;
};

struct LoggingFlags {
  std::int64_t log_interval = 100;
  std::string log_rank = "first"; ///< or "last"
  std::optional<std::string> jsonl;
  std::optional<double> peak_tflops; ///< of one device
  std::optional<std::string> tensorboard_dir;
  std::int64_t tensorboard_log_interval = 1;
  std::int64_t tensorboard_queue_size = 1000;
  bool timers_to_tensorboard = false;
  bool batch_size_to_tensorboard = false;
  bool learning_rate_to_tensorboard = true;
  bool loss_scale_to_tensorboard = true;
  bool validation_ppl_to_tensorboard = false;
  bool optimizer_states_to_tensorboard = false;
  bool memory_to_tensorboard = false;
  bool world_size_to_tensorboard = false;
  bool params_norm = false;
  bool num_zeros_in_grad = false;
  bool throughput = false;
  std::int64_t timing_log_level = 0;
  std::optional<std::string> timing_log_option; ///< absent: of rank 0
  bool profile = false;
  std::vector<std::string> profile_steps; ///< "2-4", "7,9"
  std::int64_t profile_step_start = 10;
  std::int64_t profile_step_end = 12;
  std::vector<std::int64_t> profile_ranks{0};
};

struct GenerationFlags {
  std::int64_t out_seq_length = 1024;
  double temperature = 1.0;
  bool greedy = false;
  std::int64_t top_k = 0;
  double top_p = 0.0;
  double top_p_decay = 0.0;
  double top_p_bound = 0.0;
  double repetition_penalty = 1.0;
  std::int64_t beam_width = 0;
  double length_penalty = 1.0;
  std::vector<std::string> stop;
  std::vector<std::int64_t> stop_token_ids;
  std::optional<std::string> prompt_ids; ///< "5,17,3"
  bool return_log_probs = false;
  std::int64_t top_n_logprobs = 0;
  std::optional<std::string> weight_type; ///< fp32, bf16 or int8
  std::string device = "auto";            ///< or "cpu"
  std::int64_t num_samples = 0;
  std::optional<std::string> genfile;
  std::optional<std::string> sample_input_file;
  std::optional<std::string> sample_output_file;
  bool recompute = false;
  std::int64_t port = 5000;
};

struct ConversionFlags {
  std::optional<std::string> model_type;
  std::optional<std::int64_t> target_tensor_parallel;
  std::optional<std::int64_t> target_pipeline_parallel;
};

struct DeepSpeedFlags {
  bool deepspeed = false;
  std::optional<std::string> config;
  std::optional<std::int64_t> zero_stage;
  std::optional<std::int64_t> zero_reduce_bucket_size;
  std::optional<std::int64_t> zero_allgather_bucket_size;
  bool optimizer_cpu_offload = false;
  std::optional<double> optimizer_offload_fraction;
  std::optional<OffloadUpdate> offload_update_on;
};

struct Flags {
  ModelFlags model;
  MoeFlags moe;
  TrainingFlags training;
  RegularizationFlags regularization;
  LearningRateFlags learning_rate;
  CheckpointFlags checkpointing;
  PrecisionFlags precision;
  DistributedFlags distributed;
  ValidationFlags validation;
  DataFlags data;
  PreprocessFlags preprocess;
  TokenizerFlags tokenizer;
  LoggingFlags logging;
  GenerationFlags generation;
  ConversionFlags conversion;
  DeepSpeedFlags deepspeed;
};

} // namespace cairn::config
