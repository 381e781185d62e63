#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::nn {

/// Low frequencies slowed down by `factor`, for longer texts: all of them, or
/// as Llama 3.1 those whose waves are long against the original context.
struct RotaryScaling {
  enum class Kind { linear, llama3 };
  Kind kind = Kind::linear;
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  std::int64_t original_positions = 8192;
};

struct RotaryOptions {
  std::int64_t head_size = 0;
  double theta = 10000;
  std::optional<RotaryScaling> scaling{};
};

/// Rotary positions: turns each head's first half against its second by an
/// angle that grows with the position. Shared by all layers of a model; any
/// number of threads may use it.
class Rotary {
 public:
  explicit Rotary(const RotaryOptions& options);

  /// Cosine and sine, [batch or 1, sequence, 1, head_size / 2]; without
  /// positions, which are [batch, sequence], those are 0, 1, …. Positions may
  /// be of a part of the sequence: then so are the angles.
  std::pair<at::Tensor, at::Tensor> angles(
      const at::Tensor& positions,
      std::int64_t sequence,
      at::ScalarType dtype,
      at::Device device) const;

 private:
  void grow(std::int64_t sequence, at::ScalarType dtype, at::Device device)
      const;

  std::vector<float> frequencies_;
  // The tables of the last type and device asked for, long enough so far.
  mutable std::mutex mutex_;
  mutable at::Tensor cosine_;
  mutable at::Tensor sine_;
};

/// x [batch, sequence, heads, head_size], turned; contiguous.
at::Tensor rotate(
    const at::Tensor& x,
    const at::Tensor& cosine,
    const at::Tensor& sine);

} // namespace cairn::nn
