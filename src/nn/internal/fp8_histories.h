#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/nn/fp8_scaling.h>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::nn {

/// The histories of all fp8 layers of a model, in one piece of memory. Whoever
/// trains the model calls look() before passes and advance() after updates. A
/// model without histories costs nothing.
class Fp8Histories {
 public:
  /// Whether weights in fp8 stay in memory for an update, two bytes for each
  /// element, or are rounded by every pass.
  enum class Weights { kept, rounded_again };

  /// The model is on its device already, and outlives this.
  explicit Fp8Histories(
      torch::nn::Module& model,
      Weights weights = Weights::kept);

  /// True when no pass has to find the largest value of a matrix before it is
  /// rounded. False until the first update, unless a checkpoint was loaded.
  bool are_ready() const { return ready_; }
  /// Looks whether a checkpoint has brought units. Waits for the GPU, until
  /// they are ready.
  void look();
  /// Begins an update: weights may have changed since the last pass.
  void begin_update();
  /// Ends an update: the largest values that were noted in it become history,
  /// and the units of the next update follow. The ranks of all `groups`, which
  /// have these layers or parts of them, note the largest values of all.
  void advance(std::span<const distributed::ProcessGroup> groups);

 private:
  void set_ready();

  std::vector<std::shared_ptr<Fp8History>> all_;
  at::Tensor memory_; ///< rows of Fp8History::buffer(), one after another
  at::Tensor limits_; ///< numbers that largest values become, [rows]
  bool ready_ = true;
};

/// True when a buffer of this name, in a model, is a history.
bool is_fp8_history(std::string_view buffer_name);

} // namespace cairn::nn
