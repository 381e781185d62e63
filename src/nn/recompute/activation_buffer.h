#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace cairn::nn {

/// Keeps inputs of checkpoints in one block of memory for each kind of input,
/// with a place for each checkpoint. Inputs that are kept over a whole forward
/// then do not fragment the memory that comes and goes.
class ActivationBuffer : public std::enable_shared_from_this<ActivationBuffer> {
 public:
  explicit ActivationBuffer(std::int64_t places) : places_(places) {}

  /// A free place for input number `position`. The place is free again when the
  /// tensor is gone. Throws ConfigError when all places are taken.
  at::Tensor take(
      std::size_t position,
      std::int64_t numel,
      const at::TensorOptions& options);

 private:
  struct Row {
    at::Tensor memory; // [places, numel]
    std::vector<std::int64_t> free;
  };
  using Kind =
      std::tuple<std::size_t, std::int64_t, at::ScalarType, std::string>;

  std::int64_t places_;
  std::mutex mutex_;
  std::map<Kind, Row> rows_;
};

} // namespace cairn::nn
