#include "engine/build/trained_model.h"

#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>

namespace cairn::inline engine {

int TrainedModel::trainable_buckets() const {
  return static_cast<int>(
      std::ranges::count_if(layout->buckets(), &zero::Bucket::trainable));
}

std::vector<double> TrainedModel::learning_rates() const {
  std::vector<double> rates;
  for (const optim::GroupValues& group : optimizer->groups()) {
    rates.push_back(group.lr);
  }
  return rates;
}

std::int64_t TrainedModel::gathered_bytes() const {
  return gatherer ? flat->bytes().live : 0;
}

bool TrainedModel::rests_on_disk() const {
  return optimizer->bytes().disk > 0 || flat->bytes().on_disk > 0;
}

at::Tensor TrainedModel::full_parameter(const std::string& name) const {
  const torch::autograd::AutoGradMode no_grad(false);
  const int number = parameters.number_of(name);
  const int bucket = layout->bucket_of(number);
  if (gatherer) {
    gatherer->pin(bucket);
  }
  at::Tensor copy = parameters.tensors[number].detach().clone();
  if (gatherer) {
    gatherer->unpin(bucket);
  }
  return copy;
}

void TrainedModel::settle() {
  if (arriving) {
    arriving->wait_all();
  }
}

void TrainedModel::publish_restored() {
  optimizer->publish_weights();
  for (int b = trainable_buckets(); b < flat->buckets(); ++b) {
    if (!flat->partitioned(b) && layout->world() > 1) {
      flat->publish(b).wait();
    }
  }
  if (gatherer) {
    gatherer->release_all();
  }
  if (pipeline) {
    pipeline->share_tied_weights();
  }
}

} // namespace cairn::engine
