#include "cli/tune/model_size.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/plan/from_config.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>

namespace cairn::cli {
namespace {

ModelSize from_file(const std::string& file) {
  constexpr std::uint64_t most = 1 << 16;
  const auto json = nlohmann::json::parse(
      read_file(file, most),
      nullptr,
      /*allow_exceptions=*/false);
  const auto number = [&](const char* key) {
    const bool there = json.is_object() && json.contains(key) &&
        json[key].is_number() && json[key].get<double>() > 0;
    return there ? json[key].get<double>() : 0;
  };
  ModelSize size{
      .parameters = number("num_params"),
      .activation_bytes = number("activation_mem_per_gpu")};
  if (size.parameters == 0) {
    throw ConfigError(
        {.what = "the file does not say how large the model is",
         .where = "autotuning.model_info_path",
         .values = file,
         .remedy = "write {\"num_params\": N} into it, and "
                   "\"activation_mem_per_gpu\" if it is known"});
  }
  return size;
}

} // namespace

std::optional<ModelSize> model_size(const config::Config& config) {
  const config::AutotuningConfig& options = config.deepspeed.autotuning;
  ModelSize size;
  if (options.model_info_path) {
    size = from_file(*options.model_info_path);
  }
  if (options.model_info.num_params) {
    size.parameters = static_cast<double>(*options.model_info.num_params);
  }
  if (size.parameters == 0) {
    return std::nullopt;
  }
  size.states = plan::state_bytes_of(config);
  return size;
}

double least_bytes(const ModelSize& model, const plan::RunLayout& layout) {
  const plan::StateBytes& each = model.states;
  // Ranks that share the model itself hold parts of it.
  const double held =
      model.parameters / static_cast<double>(layout.tensor * layout.pipeline);
  const auto data = static_cast<double>(
      layout.shard_ranks > 0 ? layout.shard_ranks
                             : layout.data() * layout.context);
  const auto share = [&](int stage) {
    return layout.zero_stage >= stage ? held / data : held;
  };
  const bool away = layout.optimizer != plan::Place::device;
  const double left = away ? 1 - layout.offloaded : 1;
  double bytes = left * (each.master + each.moments) * share(1);
  bytes += each.gradient * share(2) *
      (layout.zero_stage >= 2 && !layout.update_on_gpu ? left : 1);
  if (layout.parameters == plan::Place::device) {
    bytes += each.parameter * share(3);
  }
  return bytes +
      model.activation_bytes * static_cast<double>(layout.micro_batch);
}

} // namespace cairn::cli
