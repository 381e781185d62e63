#pragma once

#include <cairn/config/precision_config.h>

#include <cstdint>
#include <variant>

namespace cairn::optim {

/// The effect of an update on the scale.
enum class ScaleChange {
  none,
  raised,
  lowered,
  tolerated,  ///< an overflow, but hysteresis allows more of them
  at_minimum, ///< an overflow, and the scale cannot go lower
};

struct StaticScale {
  double scale = 1;

  ScaleChange update(bool overflow);
  bool operator==(const StaticScale&) const = default;
};

// The dynamic scales hold their options first, then the state that a checkpoint
// keeps.

/// DeepSpeed's scale with ZeRO stages 1 to 3. The first growth comes a step
/// late (window + 1 clean steps), as DeepSpeed's does.
struct ZeroScale {
  std::int64_t window = 1000;
  std::int64_t full_hysteresis = 2;
  bool consecutive_hysteresis = false;
  double minimum = 1;

  double scale = 65536;
  std::int64_t hysteresis = full_hysteresis;
  std::int64_t iteration = 0;
  std::int64_t last_overflow = -1;

  ScaleChange update(bool overflow);
  bool operator==(const ZeroScale&) const = default;
};

/// DeepSpeed's scale with stage 0: no hysteresis.
struct FusedScale {
  std::int64_t window = 1000;
  double minimum = 1;

  double scale = 65536;
  std::int64_t iteration = 0;
  std::int64_t last_overflow = -1;

  ScaleChange update(bool overflow);
  bool operator==(const FusedScale&) const = default;
};

/// Megatron's scale: hysteresis comes back only with a growth.
struct MegatronScale {
  float growth_factor = 2;
  float backoff_factor = 0.5;
  std::int64_t growth_interval = 1000;
  std::int64_t full_hysteresis = 2;
  float minimum = 1;

  float scale = 4294967296;
  std::int64_t hysteresis = full_hysteresis;
  std::int64_t clean_steps = 0;

  ScaleChange update(bool overflow);
  bool operator==(const MegatronScale&) const = default;
};

/// Apex's scale for amp: no hysteresis, and an upper limit.
struct AmpScale {
  std::int64_t window = 2000;
  double minimum = 1;
  double maximum = 16777216;

  double scale = 65536;
  std::int64_t clean_steps = 0;

  ScaleChange update(bool overflow);
  bool operator==(const AmpScale&) const = default;
};

/// Keeps gradients inside fp16's range. Multiply the loss by scale(), divide
/// the gradients by it, and tell update() if any gradient was inf or nan (the
/// step must then be skipped). A scaler can be copied and compared; save its
/// state().
///
///   LossScaler scaler(ZeroScale{});
///   (loss * scaler.scale()).backward();
///   if (scaler.update(overflow) == ScaleChange::at_minimum) …
class LossScaler {
 public:
  using State =
      std::variant<StaticScale, ZeroScale, FusedScale, MegatronScale, AmpScale>;

  explicit LossScaler(State state = StaticScale{}) : state_(state) {}
  /// The scaler that DeepSpeed chooses for its `fp16` section and ZeRO stage; a
  /// scale of 1 where fp16 is off. Throws ConfigError.
  static LossScaler from(const config::Fp16Config& config, int zero_stage);
  /// The scaler that Apex chooses for the settings of amp. bf16 has fp32's
  /// range and needs no scale.
  static LossScaler from(const config::AmpConfig& config, bool in_fp16);

  double scale() const;
  bool dynamic() const { return !std::holds_alternative<StaticScale>(state_); }
  ScaleChange update(bool overflow);

  const State& state() const { return state_; }
  bool operator==(const LossScaler&) const = default;

 private:
  State state_;
};

} // namespace cairn::optim
