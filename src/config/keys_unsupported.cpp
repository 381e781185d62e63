#include "config/key.h"

namespace cairn::config {

// Sections that DeepSpeed knows and Cairn does not build: named here so that
// they are refused for what they are and not as unknown words.
void add_unsupported_keys(std::vector<Key>& table) {
  KeySection top(table, "");
  top.opaque(
      "allgather_size",
      "Bucket size beside the old \"zero_optimization\": true.",
      "use zero_optimization.allgather_bucket_size");
  top.opaque(
      "comet",
      "Logging to Comet.",
      "use tensorboard or csv_monitor instead");
  top.opaque(
      "compile",
      "DeepCompile.",
      "there is no graph compiler in C++; kernels are fused by hand");
  top.opaque(
      "compression_training",
      "Quantisation and pruning while training.",
      "model compression is not built");
  top.opaque(
      "datastates_ckpt",
      "A checkpoint library.",
      "checkpoints are always written in the background");
  top.opaque(
      "disable_python_gc",
      "Keep Python's garbage collector from running by itself.",
      "there is no Python garbage collector in the process");
  top.opaque(
      "eigenvalue",
      "Eigenvalues for quantisation.",
      "model compression is not built");
  top.opaque(
      "expert_parallel",
      "Automatic expert parallelism for Python models.",
      "use --expert-model-parallel-size");
  top.opaque(
      "graph_harvesting",
      "CUDA graphs from PyTorch.",
      "the engine decides when to use CUDA graphs");
  top.opaque(
      "hybrid_engine",
      "Training and generation in one engine.",
      "reinforcement learning is not built");
  top.opaque(
      "nebula",
      "A checkpoint service.",
      "checkpoints are always written in the background");
  top.opaque(
      "progressive_layer_drop",
      "Dropping layers while training.",
      "it is not built");
  top.opaque(
      "quantize_training",
      "Quantisation while training.",
      "model compression is not built");
  top.opaque(
      "sparse_attention",
      "Block-sparse attention.",
      "superseded by flash attention");
  top.opaque(
      "tensor_parallel",
      "Automatic tensor parallelism for Python models.",
      "use --tensor-model-parallel-size");
  top.opaque(
      "torch_autocast",
      "PyTorch's autocast.",
      "use amp with opt_level O1, or bf16");
  top.opaque(
      "wandb",
      "Logging to Weights & Biases.",
      "use tensorboard or csv_monitor instead");
  top.opaque(
      "weight_quantization",
      "Quantised weights for inference.",
      "model compression is not built");
}

} // namespace cairn::config
