#include "config/key.h"

namespace cairn::config {

void add_scaling_keys(std::vector<Key>& table) {
  using D = DeepSpeedConfig;
  using E = ElasticityConfig;
  KeySection elastic(
      table,
      "elasticity",
      "One effective batch for many world sizes; replaces the batch keys.");
  elastic.key<&D::elasticity, &E::enabled>(
      "enabled",
      "Choose the batch this way.");
  elastic
      .key<&D::elasticity, &E::max_train_batch_size>(
          "max_train_batch_size",
          "Upper bound of the effective batch.")
      .at_least(1);
  elastic
      .key<&D::elasticity, &E::micro_batch_sizes>(
          "micro_batch_sizes",
          "Micro batches to choose from.")
      .at_least(1);
  elastic
      .key<&D::elasticity, &E::min_gpus>(
          "min_gpus",
          "Fewest ranks to provide for.")
      .at_least(1);
  elastic
      .key<&D::elasticity, &E::max_gpus>(
          "max_gpus",
          "Most ranks to provide for.")
      .at_least(1);
  elastic
      .key<&D::elasticity, &E::min_time>(
          "min_time",
          "Minutes between changes of scale.")
      .at_least(0)
      .without_effect("Cairn does not rescale a running job");
  elastic
      .key<&D::elasticity, &E::prefer_larger_batch>(
          "prefer_larger_batch",
          "Of equal choices take the larger batch.")
      .also("prefer_large_batch");
  elastic.key<&D::elasticity, &E::ignore_non_elastic_batch_info>(
      "ignore_non_elastic_batch_info",
      "Override the batch keys instead of refusing them.");
  elastic.key<&D::elasticity, &E::version>(
      "version",
      "Rule of choice: 0.1 counts ranks, 0.2 counts nodes.");
  elastic
      .key<&D::elasticity, &E::model_parallel_size>(
          "model_parallel_size",
          "Ranks that share one model (0.2).")
      .at_least(1);
  elastic
      .key<&D::elasticity, &E::num_gpus_per_node>(
          "num_gpus_per_node",
          "Ranks of a node (0.2).")
      .at_least(1);

  using A = AutotuningConfig;
  KeySection tuning(
      table,
      "autotuning",
      "Search for a good stage and micro batch.");
  tuning.key<&D::autotuning, &A::enabled>("enabled", "Search.");
  tuning.key<&D::autotuning, &A::fast>(
      "fast",
      "Vary only the ZeRO stage and the micro batch.");
  tuning.key<&D::autotuning, &A::results_dir>(
      "results_dir",
      "Folder for results.");
  tuning.key<&D::autotuning, &A::exps_dir>(
      "exps_dir",
      "Folder for descriptions of experiments.");
  tuning.key<&D::autotuning, &A::overwrite>(
      "overwrite",
      "Repeat experiments that have results.");
  tuning.key<&D::autotuning, &A::metric>("metric", "What is best.");
  tuning
      .key<&D::autotuning, &A::metric_path>(
          "metric_path",
          "File that the program writes the metric to.")
      .by_default("null");
  tuning
      .key<&D::autotuning, &A::start_profile_step>(
          "start_profile_step",
          "First measured step.")
      .at_least(1);
  tuning
      .key<&D::autotuning, &A::end_profile_step>(
          "end_profile_step",
          "Last measured step.")
      .at_least(1);
  tuning.key<&D::autotuning, &A::tuner_type>(
      "tuner_type",
      "Order of the search.");
  tuning
      .key<&D::autotuning, &A::tuner_early_stopping>(
          "tuner_early_stopping",
          "Experiments without gain before the search ends.")
      .at_least(1);
  tuning
      .key<&D::autotuning, &A::tuner_num_trials>(
          "tuner_num_trials",
          "Experiments per stage at most.")
      .at_least(1);
  tuning
      .key<&D::autotuning, &A::max_train_batch_size>(
          "max_train_batch_size",
          "Largest effective batch to try.")
      .at_least(1)
      .by_default("no limit");
  tuning
      .key<&D::autotuning, &A::min_train_batch_size>(
          "min_train_batch_size",
          "Smallest effective batch to try.")
      .at_least(1);
  tuning
      .key<&D::autotuning, &A::max_train_micro_batch_size_per_gpu>(
          "max_train_micro_batch_size_per_gpu",
          "Largest micro batch to try.")
      .at_least(1);
  tuning
      .key<&D::autotuning, &A::min_train_micro_batch_size_per_gpu>(
          "min_train_micro_batch_size_per_gpu",
          "Smallest micro batch to try.")
      .at_least(1);
  tuning
      .key<&D::autotuning, &A::num_tuning_micro_batch_sizes>(
          "num_tuning_micro_batch_sizes",
          "Micro batches to try per stage.")
      .at_least(1);
  tuning
      .key<&D::autotuning, &A::mp_size>(
          "mp_size",
          "Ranks that share one model.")
      .at_least(1);
  tuning.opaque(
      "arg_mappings",
      "How experiments set the program's arguments.",
      "the autotuner sets the configuration itself");
  tuning.opaque(
      "model_info",
      "Size of the model.",
      "the autotuner counts it itself");
  tuning.opaque(
      "model_info_path",
      "File with the size of the model.",
      "the autotuner counts it itself");
}

} // namespace cairn::config
