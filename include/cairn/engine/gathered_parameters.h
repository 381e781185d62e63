#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/engine/engine.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline engine {

struct GatheredParametersOptions {
  /// Rank whose changes count, on every rank and for the optimizer too. The
  /// number is within the ranks that share the parameters. Unset: changes are
  /// discarded.
  std::optional<int> modifier_rank{};
};

/// A scope in which some of the engine's parameters are whole on every rank, to
/// read or to change in place. All ranks open and close it together; it works
/// the same at every ZeRO stage.
///
///   {
///     cairn::zero::GatheredParameters whole(
///         engine, {"head.weight"}, {.modifier_rank = 0});
///     if (engine.rank() == 0) {
///       torch::NoGradGuard no_grad;
///       net->head->weight.zero_();
///     }
///   }
class [[nodiscard]] GatheredParameters {
 public:
  using Options = GatheredParametersOptions;

  /// Gathers parameters given as tensors of the module; throws UsageError for
  /// any other tensor.
  GatheredParameters(
      const Engine& engine,
      const std::vector<at::Tensor>& parameters,
      const Options& options = {});
  /// Gathers parameters given by their names in module.named_parameters().
  GatheredParameters(
      const Engine& engine,
      const std::vector<std::string>& names,
      const Options& options = {});
  GatheredParameters(
      const Engine& engine,
      std::initializer_list<std::string> names,
      const Options& options = {})
      : GatheredParameters(engine, std::vector<std::string>(names), options) {}

  /// Gives all ranks the changes of `modifier_rank`. After an exception it
  /// discards them and tells the other ranks nothing.
  ~GatheredParameters() noexcept(false);
  GatheredParameters(const GatheredParameters&) = delete;
  GatheredParameters& operator=(const GatheredParameters&) = delete;

 private:
  void open(const std::vector<int>& parameters);
  void keep();
  void close();

  std::shared_ptr<Core> core_;
  std::optional<int> modifier_rank_;
  std::vector<int> buckets_;
  /// Parameters that stay whole, and what they were.
  std::vector<std::pair<at::Tensor, at::Tensor>> before_;
  int exceptions_;
};

} // namespace cairn::engine

namespace cairn::zero {
using engine::GatheredParameters; // the name that DeepSpeed gives it
} // namespace cairn::zero
