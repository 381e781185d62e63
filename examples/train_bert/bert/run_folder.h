#pragma once

#include "bert/options.h"

#include <ATen/core/Tensor.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/monitor/event_file.h>

#include <cstdint>
#include <filesystem>
#include <memory>

namespace bert {

/// The folder in which a run keeps what belongs to it:
///
///   CHECKPOINT_DIR/bert_pretrain.2026.3.14.15.9.26.x7k2p9qa/
///     hparams.json                the flags
///     githash.log, gitdiff.log    the program's version, if git knows it
///     tb_dir/                     the loss, for TensorBoard
///     …                           checkpoints
class RunFolder {
 public:
  /// Every rank makes it; rank 0 writes.
  RunFolder(const Options& options, const cairn::distributed::World& world);

  const std::filesystem::path& path() const { return path_; }
  /// Takes the loss of each update; every `log_every` updates rank 0 prints and
  /// writes the mean over them and over all ranks.
  void log(std::int64_t step, const at::Tensor& loss);

 private:
  cairn::distributed::World world_;
  std::int64_t every_;
  std::filesystem::path path_;
  std::unique_ptr<cairn::monitor::EventFile> curve_;
  at::Tensor sum_;
  std::int64_t count_ = 0;
};

} // namespace bert
