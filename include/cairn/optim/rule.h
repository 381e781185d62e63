#pragma once

#include <cairn/config/optimizer_config.h>
#include <cairn/kernels/stretch.h>
#include <cairn/optim/group_values.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace cairn::optim {

using kernels::Element;
using kernels::Stretch;

struct StepValues {
  std::int64_t step = 1; ///< number of this update, from 1
  /// Every gradient is multiplied by it first: unscaling, averaging and
  /// clipping in one.
  double gradient_factor = 1;
};

/// Where a stretch lies: on the CPU, or on the GPU that `stream` (a
/// cudaStream_t) belongs to.
struct Place {
  bool cuda = false;
  void* stream = nullptr;
};

/// How much of a parameter the formula must see at once.
enum class Scope {
  elementwise,     ///< nothing: update() takes any stretch
  parameter_norms, ///< see lamb.h
  whole_matrices,  ///< see muon.h
};

/// The formula of an optimizer, on flat fp32 shards. It holds what is fixed
/// for a run and no state: the caller owns weights, states and step count.
///
///   const auto rule = make_rule(config);
///   auto values = default_values(config);
///   rule->update(stretch, values, {.step = 1}, {});
class Rule {
 public:
  virtual ~Rule();
  /// "adam", "lion", …
  virtual std::string_view name() const = 0;
  /// PyTorch's names of what is kept per element: `exp_avg`, …
  virtual std::span<const std::string_view> state_names() const = 0;
  /// How many of those a parameter needs: the first ones.
  virtual std::size_t states_of(
      std::string_view /*name*/,
      std::span<const std::int64_t> /*shape*/) const {
    return state_names().size();
  }
  /// What every state starts from.
  virtual float initial_state() const { return 0; }
  virtual Scope scope() const { return Scope::elementwise; }
  /// One step, in one pass over memory. On the CPU it is done when it returns
  /// and uses one thread: the caller splits the stretch. Results are the same
  /// bits for every split, instruction set and device.
  virtual void update(
      const Stretch& stretch,
      const GroupValues& values,
      const StepValues& step,
      Place place) const;

 protected:
  Rule() = default;
  Rule(const Rule&) = default;
  Rule& operator=(const Rule&) = default;
};

/// From DeepSpeed's `optimizer` section, as DeepSpeed resolves it: Adam decays
/// as AdamW unless `adam_w_mode` is false. Throws ConfigError.
std::unique_ptr<Rule> make_rule(const config::OptimizerConfig& config);

/// What the section says of every group, the rule's defaults for the rest.
GroupValues default_values(const config::OptimizerConfig& config);

} // namespace cairn::optim
