#include "config/key.h"

namespace cairn::config {

void add_batch_keys(std::vector<Key>& table) {
  using D = DeepSpeedConfig;
  using B = BatchRequest;
  KeySection top(table, "");
  top.key<&D::batch_request, &B::train_batch_size>(
         "train_batch_size",
         "Samples per optimizer step over all ranks: micro batch x "
         "accumulation x data-parallel size. Derived when left out.")
      .by_default("derived");
  top.key<&D::batch_request, &B::train_micro_batch_size_per_gpu>(
         "train_micro_batch_size_per_gpu",
         "Samples one rank puts through one forward pass. Derived when left "
         "out.")
      .by_default("derived");
  top.key<&D::batch_request, &B::gradient_accumulation_steps>(
         "gradient_accumulation_steps",
         "Forward and backward passes per optimizer step. Derived when left "
         "out.")
      .by_default("derived, else 1");
  top.key<&D::gradients, &GradientConfig::managed_accumulation>(
         "managed_gradient_accumulation",
         "Whether the engine finds the accumulation boundary itself; if not, "
         "every call of step() updates the weights.")
      .refused("the engine always finds the accumulation boundary");
}

} // namespace cairn::config
