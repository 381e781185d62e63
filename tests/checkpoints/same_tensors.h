#pragma once

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/model/parameters.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace cairn::checkpoints {

inline std::map<std::string, at::Tensor> loaded(const NamedTensors& tensors) {
  std::map<std::string, at::Tensor> result;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor value = tensor.load();
    EXPECT_EQ(value.scalar_type(), tensor.type) << name;
    EXPECT_EQ(value.sizes().vec(), tensor.shape) << name;
    EXPECT_TRUE(result.emplace(name, value).second) << name << " twice";
  }
  return result;
}

/// Expects the same names, types, shapes and bits.
inline void expect_same(
    const std::map<std::string, at::Tensor>& got,
    const std::map<std::string, at::Tensor>& wanted) {
  for (const auto& [name, tensor] : wanted) {
    const auto found = got.find(name);
    if (found == got.end()) {
      ADD_FAILURE() << name << " is missing";
      continue;
    }
    EXPECT_EQ(found->second.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(found->second.equal(tensor)) << name;
  }
  for (const auto& [name, tensor] : got) {
    EXPECT_TRUE(wanted.contains(name)) << name << " is too much";
  }
}

/// Parameters whose elements are all different numbers.
inline NamedTensors numbered(const model::ModelDescription& description) {
  NamedTensors tensors;
  std::int64_t at = 0;
  for (const model::ModelParameter& parameter :
       model::model_parameters(description)) {
    std::int64_t count = 1;
    for (const std::int64_t size : parameter.shape) {
      count *= size;
    }
    const at::Tensor values =
        at::arange(at, at + count, at::kFloat).view(parameter.shape);
    at += count;
    tensors.emplace_back(
        parameter.name,
        LazyTensor{at::kFloat, parameter.shape, [values] {
                     return values.clone();
                   }});
  }
  return tensors;
}

} // namespace cairn::checkpoints
