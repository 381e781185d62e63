#pragma once

#include "nn/fp8/fp8_matrix.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/fp8_scaling.h>

#include <array>
#include <cstdint>
#include <optional>

namespace cairn::nn {

/// The largest values of the factors of one layer's products in earlier
/// updates, and the units that follow from them. Units change between updates
/// only: passes of micro batches and recomputed passes all have the same ones.
class Fp8History {
 public:
  enum Factor { input, weight, gradient };
  static constexpr std::int64_t factors = 3;

  /// Places in the row of a factor. The numbers are floats; the tensor holds
  /// their bits as integers, which nobody casts to the type of the weights.
  enum Place {
    largest, ///< since the last update
    unit,    ///< 0: none yet
    earlier  ///< largest values of earlier updates, the newest first
  };
  static constexpr const char* buffer_name = "fp8_history";

  Fp8History(at::Tensor buffer, Fp8Format format, const Fp8Delay& delay);

  /// [factors, earlier + delay.history]
  const at::Tensor& buffer() const { return buffer_; }
  Fp8Format format() const { return format_; }
  const Fp8Delay& delay() const { return delay_; }

  /// Moves the numbers to `memory`, which somebody keeps up to date.
  void move_to(const at::Tensor& memory);
  /// All units are known from now on.
  void set_ready() { ready_ = true; }

  /// The unit of a factor, if it is known, and the place of its largest value,
  /// where a pass with gradients is to note it.
  Fp8Scale scale_of(Factor factor) const;

 private:
  at::Tensor buffer_;
  Fp8Format format_;
  Fp8Delay delay_;
  bool ready_ = false;
  std::array<at::Tensor, factors> largest_{};
  std::array<at::Tensor, factors> units_{};
};

/// The scales of all factors of a layer.
struct Fp8Scales {
  Fp8Scale input{};
  Fp8Scale weight{};
  Fp8Scale gradient{};

  static Fp8Scales of(const std::optional<Fp8Use>& use);
};

} // namespace cairn::nn
