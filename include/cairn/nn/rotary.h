#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/model/description.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::nn {

struct RotaryOptions {
  std::int64_t head_size = 0;
  double theta = 10000;
  std::optional<model::RopeScaling> scaling{};
};

/// Rotary positions: turns each head's first half against its second by an
/// angle that grows with the position. All layers of a model share one object;
/// any number of threads may use it.
class Rotary {
 public:
  explicit Rotary(const RotaryOptions& options);

  /// Cosine and sine, [batch or 1, sequence, 1, head_size / 2]. `positions` are
  /// [batch, sequence]; undefined ones are 0, 1, …. Positions may be those of a
  /// part of the sequence; the angles are then of that part.
  std::pair<at::Tensor, at::Tensor> angles(
      const at::Tensor& positions,
      std::int64_t sequence,
      at::ScalarType dtype,
      at::Device device) const;

 private:
  void grow(std::int64_t sequence, at::ScalarType dtype, at::Device device)
      const;

  std::vector<float> frequencies_;
  // Tables for the type and device that were asked for last, as long as needed
  // so far.
  mutable std::mutex mutex_;
  mutable at::Tensor cosine_;
  mutable at::Tensor sine_;
};

/// Rotates x [batch, sequence, heads, head_size]; the result is contiguous.
at::Tensor rotate(
    const at::Tensor& x,
    const at::Tensor& cosine,
    const at::Tensor& sine);

} // namespace cairn::nn
