#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/config/config.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/optim/loss_scaler.h>
#include <cairn/optim/schedule.h>
#include <torch/nn/module.h>
#include <torch/optim/adamw.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace gpt2 {

/// The parts that plain libtorch needs around an optimizer to train in fp16, as
/// Megatron's FP16_Optimizer has it: fp32 copies of the weights, which the
/// optimizer updates, and a scaled loss. With --fp16 it makes the model's own
/// ones fp16; else they are their own copies, and the scale is 1.
class Fp16Optimizer {
 public:
  Fp16Optimizer(
      const torch::nn::Module& model,
      std::shared_ptr<torch::optim::AdamW> optimizer,
      const cairn::config::Config& args,
      const cairn::distributed::ProcessMesh& mpu);

  void zero_grad();
  void backward(const at::Tensor& loss); ///< of the loss times the scale
  void update_master_grads();            ///< to fp32, without the scale
  /// Clips by the norm over all ranks that share the model.
  void clip_master_grads(double most);
  /// False, and nothing is updated, when the gradients overflowed.
  bool step();

  double loss_scale() const { return scaler_.scale(); }
  /// The rate of the next update by the schedule, which counts no skipped ones.
  void set_learning_rate(const cairn::optim::Schedule& schedule);

  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  struct Weight {
    at::Tensor model;
    at::Tensor master;
    bool counts = true; ///< in the norm: not where another rank has the same
  };

  std::shared_ptr<torch::optim::AdamW> optimizer_;
  cairn::distributed::ProcessGroup model_parallel_;
  cairn::optim::LossScaler scaler_;
  std::int64_t batch_size_;
  std::vector<Weight> weights_;
  double norm_ = 0;
  std::int64_t updates_ = 0;
};

} // namespace gpt2
