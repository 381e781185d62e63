#include "engine/later_memory.h"

#include "models/internal/load_weights.h"

#include <ATen/Functions.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/initialize.h>
#include <cairn/model/parameters.h>
#include <cairn/model/presets.h>
#include <cairn/models/transformer.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace cairn::later_memory {
namespace {

using distributed::Axis;
using distributed::ProcessMesh;
using nlohmann::json;

/// Elements of a bucket: two of the largest matrices.
std::int64_t bucket_of(const Case& row) {
  return 8 * row.hidden * row.hidden;
}

json config_of(const Case& row, const std::string& folder) {
  const std::int64_t bucket = bucket_of(row);
  json config{
      {"train_micro_batch_size_per_gpu", 1},
      {"bf16", {{"enabled", true}}},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-3}}}}},
      {"zero_optimization",
       {{"stage", row.stage},
        {"reduce_bucket_size", bucket},
        {"stage3_param_persistence_threshold", 0},
        {"stage3_max_live_parameters", 2 * bucket},
        {"stage3_prefetch_bucket_size", bucket},
        {"stage3_max_reuse_distance", 0}}}};
  const auto offload = [&](const char* key, const std::string& device) {
    if (!device.empty()) {
      config["zero_optimization"][key] = {
          {"device", device},
          {"nvme_path", folder},
          {"buffer_count", 4},
          {"max_in_cpu", 0}};
    }
  };
  offload("offload_optimizer", row.optimizer);
  offload("offload_param", row.parameters);
  if (config["zero_optimization"].contains("offload_optimizer")) {
    config["zero_optimization"]["offload_optimizer"].erase("max_in_cpu");
  }
  return config;
}

/// Elements of a rank.
struct Elements {
  double whole = 0; ///< of its part of the model
  double share = 0; ///< of what is its own where ranks share parameters
};

Elements elements_of(const Case& row, int ranks) {
  double dense = 0;
  double experts = 0;
  for (const model::ModelParameter& parameter :
       model::model_parameters(described(row))) {
    (model::is_expert(parameter) ? experts : dense) +=
        static_cast<double>(parameter.elements());
  }
  return {dense + experts / row.expert_ranks, (dense + experts) / ranks};
}

/// Bytes of states between steps in the memory that is measured.
struct States {
  double weights = 0;   ///< 2 for a bf16 weight
  double gradients = 0; ///< 4 for each
  double optimizer = 0; ///< 12 for each parameter
  double all() const { return weights + gradients + optimizer; }
};

/// A disk's own buffers, as many as `buffer_count`, are in no count, and what
/// rests on the CPU is not in that of a GPU.
States states_of(const Case& row, int ranks, bool on_gpu) {
  const Elements elements = elements_of(row, ranks);
  const auto share = [&](int stage) {
    return row.stage >= stage ? elements.share : elements.whole;
  };
  const auto stays = [&](const std::string& device) {
    return device.empty() || (device == "cpu" && !on_gpu);
  };
  States states;
  states.weights = stays(row.parameters) ? 2 * share(3) : 0;
  states.optimizer = stays(row.optimizer) ? 12 * share(1) : 0;
  // Sums that a GPU's ranks have added up leave for an optimizer elsewhere.
  const bool leave = on_gpu && !row.optimizer.empty() && row.stage >= 2;
  states.gradients = leave ? 0 : 4 * share(2);
  return states;
}

} // namespace

model::ModelDescription described(const Case& row) {
  auto description = model::gpt_description(
      {.layers = 12,
       .hidden = row.hidden,
       .heads = 4,
       .sequence = 32,
       .vocabulary = 4 * row.hidden});
  if (row.expert_ranks > 1) {
    description.experts.emplace().counts = {4};
  }
  return description;
}

void write_foreign(const Case& row) {
  const auto model = models::make_model(described(row));
  checkpoints::NamedTensors tensors;
  for (const auto& [name, parameter] : model->named_parameters().pairs()) {
    tensors.emplace_back(
        name,
        checkpoints::LazyTensor(
            at::kFloat,
            parameter.sizes().vec(),
            [values = parameter.detach()] { return values; }));
  }
  checkpoints::write_huggingface(row.foreign, described(row), tensors);
}

void check(
    const distributed::World& world,
    const std::filesystem::path& folder,
    const Case& row,
    const Meter& meter) {
  const std::string name = fmt::format(
      "stage {}, optimizer {}, parameters {}, experts on {}, {}{} ranks",
      row.stage,
      row.optimizer,
      row.parameters,
      row.expert_ranks,
      row.foreign.empty() ? "" : "foreign weights, ",
      world.size());
  SCOPED_TRACE(name);
  const at::Device device(world.device_name());
  const States states = states_of(row, world.size(), device.is_cuda());
  // A bucket's weights and a copy, in fp32.
  const double one_bucket = 8.0 * static_cast<double>(bucket_of(row));
  meter.reset();
  const auto expect_at_most = [&](const char* when, double wanted) {
    EXPECT_LT(meter.peak(), wanted + meter.libraries) << when;
    meter.reset();
  };

  const ProcessMesh mesh(
      world.group(),
      {.data = world.size(), .expert = row.expert_ranks});
  const auto later = std::make_shared<nn::LaterValues>();
  models::ModelOptions options{
      .expert_group = mesh.along(Axis::expert),
      .device = device,
      .later = later};
  if (!row.foreign.empty()) {
    options.seed.reset();
  }
  const auto model = models::make_model(described(row), options);
  if (!row.foreign.empty()) {
    models::load_weights_later(
        *model,
        described(row),
        checkpoints::read_huggingface(row.foreign).tensors,
        *later);
  }
  EXPECT_LT(meter.peak(), 1'000'000 + meter.libraries) << "no memory yet";
  auto [engine, optimizer, loader, schedule] = initialize(
      {.model = model,
       .later_values = later,
       .mesh = mesh,
       .config = config_of(row, folder.string()).dump(),
       .world = world,
       .logger = Logger({.least = LogLevel::error})});
  expect_at_most(
      "at the start",
      states.weights + states.optimizer + one_bucket);

  const at::Tensor tokens =
      at::arange(32, at::TensorOptions(device).dtype(at::kLong)).view({1, 32});
  for (int i = 0; i < 2; ++i) {
    const auto output = engine.forward<models::ModelOutput>(
        models::ModelInput{.tokens = tokens, .labels = tokens});
    engine.backward(output.loss);
    engine.step();
  }
  const double activations = 16e3 * static_cast<double>(row.hidden);
  expect_at_most("in training", states.all() + 2 * one_bucket + activations);

  const auto saved = folder / name;
  engine.save_checkpoint(saved, "one", {}, {.wait = true});
  expect_at_most("while saving", states.all() + 2 * one_bucket);
  engine.load_checkpoint(saved, "one");
  expect_at_most("while loading", states.all() + 2 * one_bucket);
}

} // namespace cairn::later_memory
