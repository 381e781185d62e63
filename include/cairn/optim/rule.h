#pragma once

#include <cairn/config/optimizer_config.h>
#include <cairn/kernels/stretch.h>
#include <cairn/optim/parameter_groups.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace cairn::optim {

using kernels::Element;
using kernels::Stretch;

struct StepValues {
  std::int64_t step = 1; ///< number of this update, from 1
  /// Factor of every gradient before anything else: unscaling, averaging and
  /// clipping in one.
  double gradient_factor = 1;
};

struct FormulaConstants; // optim/internal/formula_constants.h

/// The device of a stretch: the CPU, or the GPU that `stream` (a cudaStream_t)
/// belongs to.
struct Place {
  bool cuda = false;
  void* stream = nullptr;
  /// Takes the formula of an update, which is then not applied; may be null.
  FormulaConstants* constants = nullptr;
};

/// The part of a parameter that the formula must see at once.
enum class Scope {
  elementwise,     ///< one element: update() moves the weights
  parameter_norms, ///< the norms of the whole parameter: LAMB
  whole_matrices,  ///< the whole matrix, made orthogonal: Muon
};

/// The way to make a direction orthogonal: two orders of the same products.
/// `gram` iterates on the small square matrix X Xt and touches the large one
/// only at the start, once in the middle and at the end, which is faster where
/// a matrix is far from square.
enum class OrthogonalMethod { standard, gram };

/// A whole parameter, known once the direction of its step is.
struct WholeParameter {
  std::int64_t rows = 1; ///< first dimension
  std::int64_t columns = 1;
  /// Sums of squares; only for Scope::parameter_norms.
  double weight_squares = 0;
  double direction_squares = 0;
};

/// A step along a direction: weight -= decay * weight + step_size * direction.
struct Descent {
  double decay = 0;
  double step_size = 0;
};

/// The formula of an optimizer, on flat fp32 shards. A rule holds the settings
/// of a run and no state: the caller owns weights, states and step count.
///
///   const auto rule = make_rule(config);
///   auto values = default_values(config);
///   rule->update(stretch, values, {.step = 1}, {});
///
/// A rule of another scope than elementwise takes two passes, because it needs
/// more of a parameter than a stretch, which may be spread over ranks:
///
///   rule->update(stretch, values, step, {}, direction);
///   // the caller completes `whole` (norms), or makes the direction of the
///   // whole matrix orthogonal, as scope() says
///   rule->apply(stretch, direction, whole, values, step, {});
class Rule {
 public:
  virtual ~Rule();
  /// Name of the rule: "adam", "lion", …
  virtual std::string_view name() const = 0;
  /// PyTorch's names of the states that are kept per element: `exp_avg`, …
  virtual std::span<const std::string_view> state_names() const = 0;
  /// Number of those states that a parameter needs: the first ones.
  virtual std::size_t states_of(
      std::string_view /*name*/,
      std::span<const std::int64_t> /*shape*/) const {
    return state_names().size();
  }
  /// Initial value of every state.
  virtual float initial_state() const { return 0; }
  virtual Scope scope() const { return Scope::elementwise; }
  /// The way to make a direction orthogonal, for Scope::whole_matrices.
  virtual OrthogonalMethod orthogonal_method() const {
    return OrthogonalMethod::gram;
  }

  /// The rule that updates a parameter: this one, or the one that it leaves the
  /// parameter to (Muon leaves vectors and embeddings to Adam).
  virtual const Rule& rule_for(
      std::string_view /*name*/,
      std::span<const std::int64_t> /*shape*/) const {
    return *this;
  }
  /// Values of the parameters that rule_for() leaves to another rule. Unset:
  /// this rule updates all of them.
  virtual std::optional<GroupValues> rest_values() const {
    return std::nullopt;
  }

  /// Makes one pass over memory. An elementwise rule moves the weights. Other
  /// rules update their states and write the direction of the step to
  /// `direction`, which is as long as the stretch. On the CPU the pass is done
  /// on return and uses one thread: the caller splits the stretch. Results are
  /// the same bits for every split, instruction set and device.
  virtual void update(
      const Stretch& stretch,
      const GroupValues& values,
      const StepValues& step,
      Place place,
      float* direction = nullptr) const = 0;

  /// The formula that update() of an elementwise rule applies to the stretches
  /// of a parameter group.
  FormulaConstants constants(const GroupValues& values, const StepValues& step)
      const;

  /// The step of apply(). Plain descent unless a rule says otherwise.
  virtual Descent descent(
      const WholeParameter& whole,
      const GroupValues& values,
      const StepValues& step) const;

  /// Moves the weights of a stretch along a direction, and writes their copy.
  void apply(
      const Stretch& stretch,
      const float* direction,
      const WholeParameter& whole,
      const GroupValues& values,
      const StepValues& step,
      Place place) const;

 protected:
  Rule() = default;
  Rule(const Rule&) = default;
  Rule& operator=(const Rule&) = default;
};

/// The rule of DeepSpeed's `optimizer` section, as DeepSpeed resolves it: Adam
/// decays as AdamW unless `adam_w_mode` is false. Throws ConfigError.
std::unique_ptr<Rule> make_rule(const config::OptimizerConfig& config);

/// Values that the section sets for every group, with the rule's defaults for
/// the rest.
GroupValues default_values(const config::OptimizerConfig& config);

} // namespace cairn::optim
