#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/config/config.h>
#include <cairn/distributed/process_mesh.h>

#include <chrono>
#include <cstdint>

namespace gpt2 {

/// Megatron's line every --log-interval iterations: the mean loss of all ranks.
class Progress {
 public:
  Progress(
      const cairn::config::Config& args,
      const cairn::distributed::ProcessMesh& mpu);

  void log(std::int64_t iteration, const at::Tensor& loss, double loss_scale);

 private:
  cairn::distributed::ProcessGroup world_;
  std::int64_t iterations_;
  std::int64_t interval_;
  bool fp16_;
  at::Tensor sum_;
  std::int64_t count_ = 0;
  std::chrono::steady_clock::time_point since_;
};

} // namespace gpt2
