#pragma once

#include <cairn/nn/layer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace cairn::nn {

/// How the unit of an fp8 matrix follows from the largest values that the same
/// matrix had in earlier updates ("delayed scaling"). The pass that rounds a
/// matrix then notes its largest value, and no pass has to find it before.
struct Fp8Delay {
  enum class From {
    most_recent, ///< the last update
    max          ///< the largest of the history
  };
  std::int64_t history = 1; ///< updates whose largest values are kept
  From from = From::most_recent;
  /// The unit is two to this power times as large as the largest value needs.
  std::int64_t margin = 0;
};

class Fp8History;

/// How the products of a layer are in fp8.
struct Fp8Use {
  Fp8Format format = Fp8Format::hybrid;
  /// Largest values of the factors in earlier updates. Null: every matrix gets
  /// its unit from its own largest value.
  std::shared_ptr<const Fp8History> history{};
};

/// The input of a layer. The norm before may have rounded it to fp8 for the
/// products that read it; `x` has then its shape, its type and its place in
/// autograd's graph, but no memory.
struct LayerInput {
  LayerInput(at::Tensor x) : x(std::move(x)) {}
  LayerInput(at::Tensor place, at::Tensor rows, at::Tensor unit)
      : x(std::move(place)),
        fp8_rows(std::move(rows)),
        fp8_unit(std::move(unit)) {}

  at::Tensor x;
  at::Tensor fp8_rows{}; ///< [rows, columns]; undefined: x is as it is
  at::Tensor fp8_unit{};
};

/// A layer whose products may have factors in fp8.
class Fp8Layer : public Layer {
 public:
  /// Unset: products have factors of the layer's own type.
  const std::optional<Fp8Use>& fp8() const { return fp8_; }
  /// Null without a history.
  const std::shared_ptr<Fp8History>& fp8_history() const { return history_; }

  /// Keeps a history from now on. It is a buffer of the module, so that
  /// checkpoints have it.
  void delay_fp8(const Fp8Delay& delay, at::Device device);

 protected:
  explicit Fp8Layer(const LayerContext& context);

 private:
  std::optional<Fp8Use> fp8_;
  std::shared_ptr<Fp8History> history_;
};

/// Makes the layers of a model that multiply in fp8 take their units from
/// earlier updates. The engine that trains the model sees to the histories;
/// without one, units come from the matrices themselves.
void delay_fp8(
    torch::nn::Module& model,
    const Fp8Delay& delay,
    at::Device device);

} // namespace cairn::nn
