#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <memory>
#include <utility>

namespace cairn::inline engine {

/// Any torch::nn::Module with a `forward`, as `initialize` takes it: a
/// std::shared_ptr or one of libtorch's module holders.
class Model {
 public:
  Model() = default;

  template <std::derived_from<torch::nn::Module> Net>
  Model(std::shared_ptr<Net> net) : module_(net), call_(std::move(net)) {}

  template <typename Net>
  Model(const torch::nn::ModuleHolder<Net>& holder) : Model(holder.ptr()) {}

  torch::nn::Module& module() const { return *module_; }
  explicit operator bool() const { return module_ != nullptr; }

  /// Calls forward(); `Result` is what that returns.
  template <typename Result, typename... Inputs>
  Result forward(Inputs&&... inputs) {
    return call_.forward<Result>(std::forward<Inputs>(inputs)...);
  }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  torch::nn::AnyModule call_;
};

} // namespace cairn::engine
