#include "config/flag.h"

namespace cairn::config {

void add_run_flags(std::vector<Flag>& table) {
  using F = Flags;
  using L = LoggingFlags;
  FlagGroup logging(table, "logging");
  logging
      .flag<&F::logging, &L::log_interval>(
          "--log-interval",
          "Steps (or documents) between log lines.")
      .at_least(1)
      .also("--log_every");
  logging
      .flag<&F::logging, &L::jsonl>(
          "--log-jsonl",
          "File that gets one JSON object per logged step, for `cairn report`; "
          "\"\" for none.")
      .by_default("log.jsonl in the folder of --save");
  logging
      .flag<&F::logging, &L::peak_tflops>(
          "--peak-tflops",
          "What one device can do at most, for the utilisation (MFU).")
      .above(0)
      .by_default("known for common GPUs");
  logging.flag<&F::logging, &L::tensorboard_dir>(
      "--tensorboard-dir",
      "Folder for TensorBoard event files.");
  logging
      .flag<&F::logging, &L::tensorboard_log_interval>(
          "--tensorboard-log-interval",
          "Steps between entries.")
      .at_least(1);
  logging
      .flag<&F::logging, &L::tensorboard_queue_size>(
          "--tensorboard-queue-size",
          "Entries held before they are written.")
      .at_least(1);
  logging.flag<&F::logging, &L::timers_to_tensorboard>(
      "--log-timers-to-tensorboard",
      "Write timers.");
  logging.flag<&F::logging, &L::batch_size_to_tensorboard>(
      "--log-batch-size-to-tensorboard",
      "Write the batch size.");
  logging
      .off<&F::logging, &L::learning_rate_to_tensorboard>(
          "--no-log-learning-rate-to-tensorboard",
          "Do not write the learning rate.")
      .also("--no-log-learnig-rate-to-tensorboard");
  logging.off<&F::logging, &L::loss_scale_to_tensorboard>(
      "--no-log-loss-scale-to-tensorboard",
      "Do not write the loss scale.");
  logging.flag<&F::logging, &L::validation_ppl_to_tensorboard>(
      "--log-validation-ppl-to-tensorboard",
      "Write validation perplexity.");
  logging.flag<&F::logging, &L::optimizer_states_to_tensorboard>(
      "--log-optimizer-states-to-tensorboard",
      "Write norms of the optimizer's moments.");
  logging.flag<&F::logging, &L::memory_to_tensorboard>(
      "--log-memory-to-tensorboard",
      "Write memory in use.");
  logging.flag<&F::logging, &L::world_size_to_tensorboard>(
      "--log-world-size-to-tensorboard",
      "Write the world size.");
  logging.flag<&F::logging, &L::params_norm>(
      "--log-params-norm",
      "Log the norm of all parameters.");
  logging.flag<&F::logging, &L::num_zeros_in_grad>(
      "--log-num-zeros-in-grad",
      "Log how many gradients are zero.");
  logging
      .flag<&F::logging, &L::throughput>(
          "--log-throughput",
          "Log TFLOP/s and tokens/s.")
      .without_effect("every iteration line has them");
  logging
      .flag<&F::logging, &L::timing_log_level>(
          "--timing-log-level",
          "Log where the time of a step goes (1), in more detail (2).")
      .at_least(0)
      .at_most(2);
  logging
      .flag<&F::logging, &L::timing_log_option>(
          "--timing-log-option",
          "Which ranks' times are shown.")
      .one_of({"max", "minmax", "all"})
      .by_default("those of rank 0, in one line");
  logging
      .flag<&F::logging, &L::profile>(
          "--profile",
          "Write profiler traces of the chosen steps.")
      .also("--use-pytorch-profiler");
  logging.flag<&F::logging, &L::profile_steps>(
      "--profile-steps",
      "Steps to trace: \"2-4 7-9\" or \"2,4\".");
  logging
      .flag<&F::logging, &L::profile_step_start>(
          "--profile-step-start",
          "First step to trace.")
      .at_least(0);
  logging
      .flag<&F::logging, &L::profile_step_end>(
          "--profile-step-end",
          "Step to stop tracing at.")
      .at_least(0);
  logging
      .flag<&F::logging, &L::profile_ranks>(
          "--profile-ranks",
          "Ranks to trace.")
      .at_least(0);

  using G = GenerationFlags;
  FlagGroup generation(table, "text generation");
  generation
      .flag<&F::generation, &G::out_seq_length>(
          "--out-seq-length",
          "Tokens to write at most, after the prompt.")
      .at_least(1);
  generation
      .flag<&F::generation, &G::temperature>(
          "--temperature",
          "Below 1 likely tokens become likelier, above 1 less so.")
      .above(0);
  generation.flag<&F::generation, &G::greedy>(
      "--greedy",
      "Always take the likeliest token.");
  generation
      .flag<&F::generation, &G::top_k>(
          "--top_k",
          "Sample from so many likeliest tokens; 0: all.")
      .at_least(0);
  generation
      .flag<&F::generation, &G::top_p>(
          "--top_p",
          "Sample from the likeliest tokens that make up this much; 0: all.")
      .at_least(0)
      .at_most(1);
  generation
      .flag<&F::generation, &G::num_samples>(
          "--num-samples",
          "Texts to make without a prompt.")
      .at_least(0);
  generation.flag<&F::generation, &G::genfile>(
      "--genfile",
      "File for those texts, in lines of JSON.");
  generation.flag<&F::generation, &G::sample_input_file>(
      "--sample-input-file",
      "File with one prompt per line.");
  generation
      .flag<&F::generation, &G::sample_output_file>(
          "--sample-output-file",
          "File for what follows them, in lines of JSON.")
      .by_default("the input file's name + .out");
  generation.flag<&F::generation, &G::recompute>(
      "--recompute",
      "Compute the whole text anew for every token; always so today.");
  generation.flag<&F::generation, &G::port>("--port", "Port of the server.")
      .at_least(0)
      .at_most(65535);

  using C = ConversionFlags;
  FlagGroup conversion(table, "checkpoint conversion");
  conversion
      .flag<&F::conversion, &C::model_type>(
          "--model-type",
          "Kind of model in the checkpoint.")
      .one_of({"GPT", "BERT", "T5", "Llama"});
  conversion
      .flag<&F::conversion, &C::target_tensor_parallel>(
          "--target-tensor-model-parallel-size",
          "Tensor-parallel size wanted.")
      .at_least(1);
  conversion
      .flag<&F::conversion, &C::target_pipeline_parallel>(
          "--target-pipeline-model-parallel-size",
          "Pipeline size wanted.")
      .at_least(1);

  using D = DeepSpeedFlags;
  FlagGroup deepspeed(table, "DeepSpeed");
  deepspeed
      .flag<&F::deepspeed, &D::deepspeed>(
          "--deepspeed",
          "Train with the engine.")
      .also("--deepscale", "is the old name of --deepspeed");
  deepspeed
      .flag<&F::deepspeed, &D::config>(
          "--deepspeed_config",
          "DeepSpeed JSON file.")
      .also("--deepscale_config", "is the old name of --deepspeed_config");
  deepspeed
      .flag<&F::deepspeed, &D::zero_stage>(
          "--zero-stage",
          "What ZeRO partitions, 0 to 3.")
      .at_least(0)
      .at_most(3)
      .by_default("0")
      .same_as("zero_optimization.stage");
  deepspeed
      .flag<&F::deepspeed, &D::zero_reduce_bucket_size>(
          "--zero-reduce-bucket-size",
          "Elements reduced at a time.")
      .at_least(0)
      .by_default("5e8")
      .same_as("zero_optimization.reduce_bucket_size");
  deepspeed
      .flag<&F::deepspeed, &D::zero_allgather_bucket_size>(
          "--zero-allgather-bucket-size",
          "Elements gathered at a time.")
      .at_least(0)
      .by_default("5e8")
      .same_as("zero_optimization.allgather_bucket_size");
}

} // namespace cairn::config
