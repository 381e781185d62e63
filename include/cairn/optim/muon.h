#pragma once

#include <cairn/optim/newton_schulz.h>
#include <cairn/optim/rule.h>

#include <span>
#include <string_view>

namespace cairn::optim {

struct MuonOptions {
  bool nesterov = true;
  OrthogonalMethod method = OrthogonalMethod::gram;
  GroupValues adam; ///< of the parameters that Muon leaves to Adam
};

/// Muon: momentum, made orthogonal as a matrix. The caller drives it:
///
///   muon.momentum(stretch, values, step, place, out);
///   // the whole matrix of one parameter, gathered from its slices of out
///   orthogonalise(matrix, rows, columns, muon.method());
///   muon.apply(slice, matrix_of_slice, rows, columns, values, place);
///
/// Parameters for which takes() is false go to rest().
class Muon final : public Rule {
 public:
  explicit Muon(MuonOptions options);
  ~Muon() override;

  std::string_view name() const override { return "muon"; }
  std::span<const std::string_view> state_names() const override;
  std::size_t states_of(
      std::string_view name,
      std::span<const std::int64_t> shape) const override;
  Scope scope() const override { return Scope::whole_matrices; }
  OrthogonalMethod method() const { return options_.method; }

  /// Whether Muon is meant for this parameter: a hidden matrix (of a
  /// convolution: first dimension by the product of the others), not an
  /// embedding or the output layer, and no vector.
  static bool takes(std::string_view name, std::span<const std::int64_t> shape);
  /// Adam, for all others, with its own learning rate.
  const Rule& rest() const { return *rest_; }
  const GroupValues& rest_values() const { return options_.adam; }

  /// Updates the momentum and writes what is to be made orthogonal.
  void momentum(
      const Stretch& stretch,
      const GroupValues& values,
      const StepValues& step,
      Place place,
      float* out) const;

  /// Moves the weights of a slice of one matrix, and writes their copy. Tall
  /// matrices take larger steps, hence `rows` and `columns` of the whole.
  void apply(
      const Stretch& stretch,
      const float* direction,
      std::int64_t rows,
      std::int64_t columns,
      const GroupValues& values,
      Place place) const;

 private:
  MuonOptions options_;
  std::unique_ptr<Rule> rest_;
};

} // namespace cairn::optim
