#include <ATen/Functions.h>
#include <cairn/engine/distributed_data_parallel.h>

#include "engine/build/model_parameters.h"
#include "zero/internal/gradient_reducer.h"
#include "zero/internal/layout.h"

#include <c10/util/strides.h>
#include <cairn/base/error.h>
#include <cairn/nn/parameter_slices.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <limits>
#include <vector>

namespace cairn::inline engine {

namespace {

zero::Layout layout_of(
    const ModelParameters& parameters,
    int world,
    std::int64_t bucket_elements) {
  std::vector<zero::ParameterSpec> specs;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < parameters.tensors.size(); ++i) {
    specs.push_back(
        {.name = parameters.names[i],
         .shape = parameters.tensors[i].sizes().vec(),
         .trainable = parameters.tensors[i].requires_grad()});
    elements += specs.back().elements();
  }
  constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
  return {
      std::move(specs),
      {.world = world,
       .bucket_elements = bucket_elements > 0
           ? bucket_elements
           : zero::bucket_capacity(elements, no_limit, world)}};
}

at::ScalarType type_of(const ModelParameters& parameters) {
  return parameters.tensors.empty() ? at::kFloat
                                    : parameters.tensors[0].scalar_type();
}

} // namespace

struct DistributedDataParallel::Core {
  Core(
      const torch::nn::Module& module,
      distributed::ProcessGroup over,
      const Options& options)
      : group(std::move(over)),
        parameters(engine::parameters_of(module)),
        layout(layout_of(parameters, group.size(), options.bucket_elements)),
        reducer(
            layout,
            parameters.tensors,
            {.all = group, .shards = group},
            {.accumulate = type_of(parameters),
             .communicate = type_of(parameters),
             .before = 1.0 / group.size(),
             .same_use = options.same_use_in_all_passes,
             .outside_pass = [this] { return begin(); }}) {
    if (const auto experts = nn::expert_parameters(module); !experts.empty()) {
      throw UsageError(
          {.what = "the model's experts are shared out over ranks, so they are "
                   "not the same on all",
           .where = experts.front(),
           .remedy = "train it with initialize() and a mesh"});
    }
    const torch::autograd::AutoGradMode no_grad(false);
    for (at::Tensor& parameter : parameters.tensors) {
      group.broadcast(parameter.detach(), 0).wait();
    }
    for (at::Tensor& buffer : module.buffers()) {
      group.broadcast(buffer, 0).wait();
    }
  }

  /// Begins a pass at the first gradient of backward.
  bool begin() {
    if (!averages) {
      return false;
    }
    reducer.clear();
    reducer.begin(true);
    reducer.keep_present();
    torch::autograd::Engine::get_default_engine().queue_callback(
        [this] { end(); });
    return true;
  }

  /// The gradient's place in the bucket, but not an autograd view: zero_grad()
  /// detaches.
  at::Tensor gradient_of(int parameter) const {
    const at::Tensor bucket = reducer.gradient(layout.bucket_of(parameter));
    const at::Tensor& like = parameters.tensors[parameter];
    return at::empty({0}, bucket.options())
        .set_(
            bucket.storage(),
            layout.placement_of(parameter).offset,
            like.sizes(),
            c10::contiguous_strides(like.sizes()));
  }

  void end() {
    reducer.end();
    reducer.finish();
    for (int i = 0; i < static_cast<int>(parameters.tensors.size()); ++i) {
      if (layout.parameters()[i].trainable) {
        parameters.tensors[i].mutable_grad() = gradient_of(i);
      }
    }
  }

  distributed::ProcessGroup group;
  ModelParameters parameters;
  zero::Layout layout;
  zero::GradientReducer reducer;
  bool averages = true;
};

DistributedDataParallel::DistributedDataParallel(
    Model model,
    distributed::ProcessGroup group,
    const Options& options)
    : model_(std::move(model)),
      core_(
          std::make_unique<Core>(model_.module(), std::move(group), options)) {}

DistributedDataParallel::~DistributedDataParallel() = default;
DistributedDataParallel::DistributedDataParallel(
    DistributedDataParallel&&) noexcept = default;
DistributedDataParallel& DistributedDataParallel::operator=(
    DistributedDataParallel&&) noexcept = default;

/// Sees to the gradients of the backward pass to come, whatever hooks the
/// program has set since the last one.
void DistributedDataParallel::watch_gradients() {
  core_->reducer.keep_hooks();
}

DistributedDataParallel::NoSync DistributedDataParallel::no_sync() {
  return NoSync(core_->averages);
}

} // namespace cairn::engine
