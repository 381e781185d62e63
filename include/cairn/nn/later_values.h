#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace cairn::nn {

/// The values of parameters that were built without memory, by their names in
/// the model. Whoever trains the model makes memory for a parameter, or only
/// for the elements that this rank keeps, and asks for their values then; so a
/// model larger than a rank's memory can be built.
///
///   auto values = std::make_shared<cairn::nn::LaterValues>();
///   auto net = cairn::models::make_model(description, {.later = values});
///   cairn::initialize({.model = net, .later_values = values, …});
///
/// All ranks that share a parameter get the same values.
class LaterValues {
 public:
  /// Writes the elements from `first` on of a flattened parameter to `values`
  /// [n], of any floating-point type, on any device.
  using Fill =
      std::function<void(std::int64_t first, const at::Tensor& values)>;

  void set(const std::string& name, Fill fill);
  bool has(const std::string& name) const { return fills_.contains(name); }
  /// Throws InternalError for a parameter that has none here.
  void fill(
      const std::string& name,
      std::int64_t first,
      const at::Tensor& values) const;

 private:
  std::map<std::string, Fill> fills_;
};

/// A tensor whose elements all share the memory of one: a shape and a type for
/// a parameter whose values come later. Writing values to it is an error of
/// libtorch.
at::Tensor without_memory(
    at::IntArrayRef sizes,
    const at::TensorOptions& options);
/// True for tensors of without_memory() with more than one element.
bool is_without_memory(const at::Tensor& tensor);

} // namespace cairn::nn
