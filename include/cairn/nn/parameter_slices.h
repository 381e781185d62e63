#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace cairn::nn {

/// Where a parameter that is here in part lies in the whole one. `name` is as
/// the module registered it, without the module's own place in the model.
///
/// `whole` has no padding: of a vocabulary that was padded to divide evenly,
/// rows of the local parameter that would lie past the end are padding. They
/// stay zero, get no gradient and are saved nowhere.
struct ParameterSlice {
  std::string name;
  std::vector<std::int64_t> whole;  ///< the whole parameter's shape
  std::vector<std::int64_t> offset; ///< of the local one's first element

  bool operator==(const ParameterSlice&) const = default;
};

/// What a module tells of the parameters that it registered itself, when a
/// tensor parallel group shares the model. Whoever cares (gradient norms,
/// checkpoints, initial weights) walks `named_modules()` and casts.
class HoldsSlices {
 public:
  virtual ~HoldsSlices() = default;

  /// Parameters that are here in part. All others are whole, and the same on
  /// every rank of the group.
  virtual std::vector<ParameterSlice> parameter_slices() const { return {}; }

  /// Whole parameters whose gradient backward leaves incomplete, because every
  /// rank saw another part of the sequence: before it is used it has to be
  /// summed over the group, once per step.
  virtual std::vector<std::string> partial_gradients() const { return {}; }

  /// Parameters of experts that ranks with other batches share out: other ranks
  /// have other experts, and tokens come to them. Fewer ranks than the batch
  /// hold the same one; the gradient is to be summed over those.
  virtual std::vector<std::string> expert_parameters() const { return {}; }
};

/// Of the module and all modules in it, under the parameters' full names.
std::vector<ParameterSlice> parameter_slices(const torch::nn::Module& module);
std::vector<std::string> partial_gradients(const torch::nn::Module& module);
std::vector<std::string> expert_parameters(const torch::nn::Module& module);

} // namespace cairn::nn
