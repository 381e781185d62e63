#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace cairn::nn {

/// The place of the local part of a parameter in the whole one. `name` is the
/// name under which the module registered it, without the module's own path.
///
/// `whole` has no padding. Where a vocabulary was padded to divide evenly, rows
/// of the local parameter that would lie past the end are padding. They stay
/// zero, get no gradient and are not saved.
struct ParameterSlice {
  std::string name;
  std::vector<std::int64_t> whole;  ///< the whole parameter's shape
  std::vector<std::int64_t> offset; ///< place of the local part

  bool operator==(const ParameterSlice&) const = default;
};

/// A module's facts about the parameters that it registered itself, when a
/// tensor parallel group shares the model. Users of this (gradient norms,
/// checkpoints, initial weights) walk `named_modules()` and cast.
class HoldsSlices {
 public:
  virtual ~HoldsSlices() = default;

  /// Parameters of which this rank has a part. All others are whole, and the
  /// same on every rank of the group.
  virtual std::vector<ParameterSlice> parameter_slices() const { return {}; }

  /// Whole parameters whose gradient is incomplete after backward, because
  /// every rank saw another part of the sequence. The gradient has to be summed
  /// over the group once per step, before it is used.
  virtual std::vector<std::string> partial_gradients() const { return {}; }

  /// Parameters of experts that are spread over ranks with different batches:
  /// other ranks have other experts, and send their tokens here. Only some of
  /// the ranks that share the batch hold the same expert; its gradient is to be
  /// summed over these.
  virtual std::vector<std::string> expert_parameters() const { return {}; }
};

/// Results for the module and all modules in it, under the parameters' full
/// names.
std::vector<ParameterSlice> parameter_slices(const torch::nn::Module& module);
std::vector<std::string> partial_gradients(const torch::nn::Module& module);
std::vector<std::string> expert_parameters(const torch::nn::Module& module);

} // namespace cairn::nn
