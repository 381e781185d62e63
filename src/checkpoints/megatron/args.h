#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/checkpoints/megatron.h>

#include <cstdint>
#include <functional>
#include <string>

namespace cairn::checkpoints::megatron {

/// Facts from the file's tensors, for when its args lack them.
struct ModelFacts {
  bool bert = false;
  bool t5 = false;
  /// Layers of a T5's decoder: today's pretrain_t5.py makes as many as the
  /// encoder has, whatever --decoder-num-layers says.
  std::int64_t decoder_layers = 0;
  /// True where it has as many as --decoder-num-layers says: in files with the
  /// names from before Megatron-Core.
  bool decoder_as_said = false;
  bool pooler = false;
  bool masked_head = false;
  bool next_sentence_head = false;
  std::int64_t token_types = 0;
  std::int64_t padded_vocabulary = 0;
};

/// The model that Megatron's argparse.Namespace describes. Throws
/// CheckpointError for unsupported models.
model::ModelDescription description_from_args(
    const PythonValue& args,
    const ModelFacts& facts,
    const std::string& where);

/// Megatron's args for a model. Throws ConfigError if Megatron has no such
/// model.
PythonValue args_of(
    const model::ModelDescription& description,
    const MegatronWriteOptions& options,
    std::int64_t padded_vocabulary,
    at::ScalarType type);

/// The vocabulary with the padding that the options ask for. Throws ConfigError
/// for a multiple that is not possible.
std::int64_t padded_rows(
    std::int64_t vocabulary,
    const MegatronWriteOptions& options);

} // namespace cairn::checkpoints::megatron
