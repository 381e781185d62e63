#pragma once

#include "nn/fp8/fp8_matrix.h"

#include <ATen/core/Tensor.h>
#include <cairn/nn/fp8_scaling.h>

#include <array>
#include <cstdint>
#include <memory>
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
    unit,    ///< 0: none yet
    largest, ///< since the last update
    earlier  ///< largest values of earlier updates, the newest first
  };
  /// Numbers in a row: units are 16 bytes apart, as cuBLASLt reads them.
  static constexpr std::int64_t width(std::int64_t history) {
    return (earlier + history + 3) / 4 * 4;
  }
  static constexpr const char* buffer_name = "fp8_history";

  Fp8History(at::Tensor buffer, Fp8Format format, const Fp8Delay& delay);

  /// [factors, width(delay.history)]
  const at::Tensor& buffer() const { return buffer_; }
  Fp8Format format() const { return format_; }
  const Fp8Delay& delay() const { return delay_; }

  /// Moves the numbers to `memory`, which somebody keeps up to date.
  void move_to(const at::Tensor& memory);
  /// All units are known from now on.
  void set_ready() { ready_ = true; }
  /// The weight in fp8 is kept from now on, for all passes of an update.
  void keep_weight() { keeps_weight_ = true; }
  /// The weight may have changed.
  void forget_weight() { weight_is_known_ = false; }
  /// The weight in both orders, if it is kept. It is rounded if it may have
  /// changed, unless nothing is to be noted (`scale` has no place for it).
  std::optional<Fp8Matrix> kept_weight(
      const at::Tensor& weight,
      const Fp8Scale& scale) const;

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
  bool keeps_weight_ = false;
  // Passes fill these; a recorded pass writes to the same memory again.
  mutable Fp8Matrix weight_{};
  mutable bool weight_is_known_ = false;
};

/// The scales of all factors of a layer.
struct Fp8Scales {
  Fp8Scale input{};
  Fp8Scale weight{};
  Fp8Scale gradient{};
  std::shared_ptr<const Fp8History> history{};

  static Fp8Scales of(const std::optional<Fp8Use>& use);

  /// The weight as the forward product reads it, and by columns as well if it
  /// is kept for an update.
  Fp8Matrix weight_to_fp8(const at::Tensor& matrix) const;
};

} // namespace cairn::nn
