#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/python_value.h>
#include <cairn/checkpoints/stored_group.h>
#include <cairn/model/description.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// Checkpoints of Megatron-LM's own models (GPT, BERT, T5), one file per rank:
//
//   latest_checkpointed_iteration.txt          "10", or "release"
//   iter_0000010/mp_rank_00/model_optim_rng.pt
//   iter_0000010/mp_rank_00_001/…              with pipeline stages
//
// or of its format "torch_dist", which knows no ranks:
//
//   iter_0000010/.metadata, __0_0.distcp, …    see dcp/metadata.h
//
// Also checkpoints of these models under DeepSpeed (latest, global_step10/):
//
//   mp_rank_00_model_states.pt                 with the model in it
//   layer_01-model_00-model_states.pt, …       of its pipeline engine
//   zero/NAME/fp32.pt, …                       a universal checkpoint

namespace cairn::checkpoints {

/// The numbers of parts into which ranks cut a model.
struct MegatronSplit {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  /// Number of stages for T5's encoder, where there are several; 0: half of
  /// them.
  std::int64_t encoder_stages = 0;
  /// Number of ranks that divide the experts of a layer.
  std::int64_t expert = 1;

  bool operator==(const MegatronSplit&) const = default;
};

/// Order of the rows in joined query, key and value weights.
enum class MegatronHeads {
  /// The order of the file's checkpoint_version. Megatron-DeepSpeed of December
  /// 2024 and later says version 3 but writes queries_keys_values: its args
  /// give it away.
  by_version,
  queries_keys_values, ///< all queries of a rank, all keys, all values
  grouped ///< for each key/value head its queries, its key, its value
};

/// The spelling of the parameters' names.
enum class MegatronNames {
  legacy, ///< language_model.encoder.layers.0.self_attention.query_key_value
  /// decoder.layers.0.self_attention.linear_qkv, with the norms in the linear
  /// layers after them: Megatron-Core's --transformer-impl transformer_engine,
  /// the default.
  core,
  core_local ///< with norms of their own: --transformer-impl local
};

struct MegatronReadOptions {
  MegatronHeads heads = MegatronHeads::by_version;
  /// The iteration to read where `folder` has several; unset: the newest.
  std::optional<std::int64_t> iteration;
  /// Size of the vocabulary without padding, where the file does not say.
  std::optional<std::int64_t> vocabulary;
  /// True: the padding counts as part of the vocabulary. Megatron trains its
  /// rows with the others, so a run that goes on needs them.
  bool keep_padding = false;
  /// The model, in place of the file's args: old files have none.
  std::optional<model::ModelDescription> description;
  /// Args that the file may lack, as an argparse.Namespace; or None. A value in
  /// the file takes precedence.
  PythonValue args;
  /// True when a number in `args` that differs from the file's is an error.
  bool compare_args = true;
  bool optimizer = false; ///< reads the states of the optimizer as well
};

struct MegatronCheckpoint {
  model::ModelDescription description;
  NamedTensors tensors; ///< under Cairn's names; see model/parameters.h
  MegatronSplit split;  ///< 1 each where the files have no ranks
  MegatronNames names = MegatronNames::legacy;
  double version = 0;
  std::optional<std::int64_t> iteration; ///< unset: a release
  PythonValue args;                      ///< None if the file has none
  std::int64_t samples = 0;              ///< consumed in training
  std::optional<std::int64_t> validation_samples;
  std::int64_t skipped_steps = 0; ///< counted in `iteration`
  /// Samples that the learning-rate schedule has counted.
  std::optional<std::int64_t> schedule_samples;
  /// Other entries of the first rank's file: rng_state, opt_param_scheduler, …
  std::vector<PythonValue::Member> others;
  /// True when the files hold states of Python's, NumPy's, PyTorch's and CUDA's
  /// generators.
  bool has_random_states = false;
  std::optional<std::int64_t> seed; ///< the run's, if the files say it
  bool has_optimizer = false; ///< true when the files hold optimizer states
  /// The states, if they were asked for and could be read: "exp_avg/NAME", …
  NamedTensors optimizer_states;
  /// fp32 copies that the optimizer updates; empty for parameters in fp32.
  NamedTensors masters;
  /// Matrices, which decay, and vectors.
  std::vector<StoredGroup> groups;
  PythonValue loss_scaler; ///< under DeepSpeed's names; or None
  /// Why the states could not be read; empty if they were, or not asked for.
  std::string optimizer_unread;
};

/// Reads a checkpoint of any split, from a folder with a tracker file or from
/// the folder of one iteration. A missing rank, ranks that contradict each
/// other and unsupported models are a CheckpointError.
MegatronCheckpoint read_megatron(
    const std::filesystem::path& folder,
    const MegatronReadOptions& options = {});

/// Megatron's --ckpt-format.
enum class MegatronFormat {
  torch,     ///< a file for each rank
  torch_dist ///< no ranks: any number of them loads it
};

/// An Adam to write beside the weights, as Megatron's FusedAdam keeps it.
struct MegatronOptimizer {
  /// "exp_avg/NAME" and "exp_avg_sq/NAME" of every parameter; others are left.
  NamedTensors states;
  /// fp32 copies of the parameters, where these are written in 16 bits.
  NamedTensors masters;
  std::int64_t steps = 0;
  PythonValue options = PythonValue::dict({}); ///< betas, eps, weight_decay, …
  /// The options of word embeddings and the output layer, where these have a
  /// learning rate of their own: max_lr, min_lr, lr; or None.
  PythonValue decoupled_options;
  /// The state of Megatron's OptimizerParamScheduler, a dict.
  PythonValue schedule = PythonValue::dict({});
  PythonValue loss_scaler; ///< under DeepSpeed's names; or None
  /// True: as --use-distributed-optimizer keeps it: in `torch_dist` of the kind
  /// "fully_reshardable", else in distrib_optim.pt. Only under Megatron-Core's
  /// names.
  bool distributed = false;
};

struct MegatronWriteOptions {
  /// The ranks to write for. A `torch_dist` folder has no ranks: there the
  /// split decides how the vocabulary is padded and, as several expert parallel
  /// ranks have two optimizers, what kind of optimizer is written.
  MegatronSplit split;
  MegatronFormat format = MegatronFormat::torch;
  /// Unset: `core` for GPT and Llama, `legacy` for other models.
  std::optional<MegatronNames> names;
  std::optional<at::ScalarType> type;    ///< unset: as the tensors are
  std::optional<std::int64_t> iteration; ///< unset: a release
  /// The vocabulary is padded to a multiple of this times the tensor ranks.
  std::int64_t vocabulary_multiple = 128;
  /// Args to keep. Those that follow from the model and the split are replaced.
  PythonValue args;
  std::vector<PythonValue::Member> others; ///< written to every rank's file
  std::int64_t samples = 0;                ///< consumed in training
  std::int64_t validation_samples = 0;     ///< consumed in validation
  /// Unset: weights alone. Of BERT and T5 only under Megatron-Core's names.
  std::optional<MegatronOptimizer> optimizer;
};

/// Writes a checkpoint of version 3 that Megatron-LM loads with --no-load-rng
/// (and without an optimizer --no-load-optim), and the tracker file last. A
/// model that cannot be cut this way, or that Megatron does not have, is a
/// ConfigError. Tensors are loaded one at a time.
void write_megatron(
    const std::filesystem::path& folder,
    const model::ModelDescription& description,
    const NamedTensors& tensors,
    const MegatronWriteOptions& options = {});

} // namespace cairn::checkpoints
