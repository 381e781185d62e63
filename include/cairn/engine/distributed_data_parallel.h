#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/engine/model.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace cairn::inline engine {

/// Data parallelism for plain libtorch programs: averages gradients over the
/// ranks while backward runs. Nothing else changes: the loop, the optimizer and
/// `parameter.grad()` stay the program's own.
///
///   auto world = cairn::init_distributed();
///   cairn::DistributedDataParallel ddp(net, world.group());
///   torch::optim::AdamW optimizer(net->parameters());
///   …
///   optimizer.zero_grad();
///   cross_entropy(ddp(x), y).backward();   // gradients are averaged here
///   optimizer.step();
///
/// All ranks start from rank 0's weights. Parameters that a rank does not use
/// count as zero there.
class DistributedDataParallel {
 public:
  struct Options {
    /// Gradients that travel together, in elements; 0: chosen by the model.
    std::int64_t bucket_elements = 0;
    /// The promise of InitializeOptions::same_use_in_all_passes.
    bool same_use_in_all_passes = false;
  };

  DistributedDataParallel(
      Model model,
      distributed::ProcessGroup group,
      const Options& options);
  DistributedDataParallel(Model model, distributed::ProcessGroup group)
      : DistributedDataParallel(std::move(model), std::move(group), Options{}) {
  }
  ~DistributedDataParallel();
  DistributedDataParallel(DistributedDataParallel&&) noexcept;
  DistributedDataParallel& operator=(DistributedDataParallel&&) noexcept;

  template <typename Result = at::Tensor, typename... Inputs>
  Result operator()(Inputs&&... inputs) {
    Result result = model_.forward<Result>(std::forward<Inputs>(inputs)...);
    watch_gradients();
    return result;
  }
  torch::nn::Module& module() { return model_.module(); }

  /// Backward passes within the scope only add up; the next one outside
  /// averages all of it.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(bool& averages) : averages_(averages) { averages_ = false; }
    ~NoSync() { averages_ = true; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    bool& averages_;
  };
  NoSync no_sync();

 private:
  struct Core;
  void watch_gradients();
  Model model_;
  std::unique_ptr<Core> core_;
};

} // namespace cairn::engine
