#pragma once

#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <cairn/engine/initialize.h>
#include <cairn/model/presets.h>
#include <cairn/models/transformer.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>

// A transformer of Cairn's own layers that is profiled, and what arithmetic
// says of it.

namespace cairn::profiled_gpt {

using nlohmann::json;

/// The text of the profile of an update of `rows` whole sequences.
inline std::string profile_of(
    const distributed::World& world,
    const model::ModelDescription& description,
    std::int64_t rows,
    const json& more) {
  const testing::TemporaryFolder folder;
  const std::string file = (folder / "profile.txt").string();
  json config{
      {"train_micro_batch_size_per_gpu", rows},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-3}}}}},
      {"flops_profiler", {{"enabled", true}, {"output_file", file}}}};
  config.merge_patch(more);
  const at::Device device(world.device_name());
  auto made = initialize(
      {.model = models::make_model(description, {.device = device}),
       .config = config.dump(),
       .world = world,
       .logger = Logger({.rank = world.rank(), .world_size = world.size()})});
  const at::Tensor tokens = at::arange(
                                rows * description.positions,
                                at::TensorOptions(device).dtype(at::kLong))
                                .remainder(description.vocabulary)
                                .view({rows, description.positions});
  for (int i = 0; i < 4; ++i) {
    const auto output = made.engine.forward<models::ModelOutput>(
        models::ModelInput{.tokens = tokens, .labels = tokens});
    made.engine.backward(output.loss);
    made.engine.step();
  }
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The figures of a module's row.
struct Row {
  std::string macs; ///< such as "1.02 KMACs"
  double forward_seconds = 0;
};

inline Row row_of(const std::string& text, const std::string& module) {
  std::string escaped;
  for (const char each : module) {
    escaped += each == '.' ? "\\." : std::string(1, each);
  }
  const std::regex line(
      "\n" + escaped +
      " +[0-9.]+( [KMG])? +[0-9.]+% +([0-9.]+ [KMGT]?MACs) +[0-9.]+%"
      " +[0-9.]+ [KMGT]?FLOPs +([0-9.]+) (us|ms|s) ");
  std::smatch found;
  if (!std::regex_search(text, found, line)) {
    ADD_FAILURE() << "no row of " << module << " in\n" << text;
    return {};
  }
  const std::string unit = found[4];
  return {
      .macs = found[2],
      .forward_seconds = std::stod(found[3]) *
          (unit == "us"       ? 1e-6
               : unit == "ms" ? 1e-3
                              : 1)};
}

/// As the profile writes MACs.
inline std::string macs_text(double macs) {
  const char* unit = "";
  for (const char* next : {"K", "M", "G", "T"}) {
    if (macs < 1000) {
      break;
    }
    macs /= 1000;
    unit = next;
  }
  return fmt::format("{:.2f} {}MACs", macs, unit);
}

/// The forward MACs of every module of a GPT or a Llama, for `rows` sequences.
inline std::map<std::string, std::string> wanted_macs(
    const model::ModelDescription& d,
    std::int64_t rows) {
  const auto number = [](std::int64_t x) { return static_cast<double>(x); };
  const double tokens = number(rows * d.positions);
  const double hidden = number(d.hidden);
  const double joined = hidden + 2 * number(d.key_value_heads * d.head_size);
  const double projection = tokens * hidden * joined;
  const double dense = tokens * hidden * hidden;
  // Scores and what they weigh, as if nothing were masked.
  const double attention =
      projection + dense + 2 * tokens * number(d.positions) * hidden;
  const double wide = tokens * hidden * number(d.ffn);
  const double mlp = (d.gated ? 3 : 2) * wide;
  const double head = tokens * hidden * number(d.padded_vocabulary);
  std::map<std::string, std::string> wanted;
  for (std::int64_t i = 0; i < d.layers; ++i) {
    const std::string layer = fmt::format("layers.{}", i);
    wanted[layer] = macs_text(attention + mlp);
    wanted[layer + ".attention"] = macs_text(attention);
    wanted[layer + ".attention.query_key_value"] = macs_text(projection);
    wanted[layer + ".attention.dense"] = macs_text(dense);
    wanted[layer + ".mlp"] = macs_text(mlp);
    wanted[layer + ".mlp.up"] = macs_text(wide);
    wanted[layer + ".mlp.down"] = macs_text(wide);
    if (d.gated) {
      wanted[layer + ".mlp.gate"] = macs_text(wide);
    }
  }
  wanted["layers"] = macs_text(number(d.layers) * (attention + mlp));
  if (d.tied_head) {
    wanted["embedding.word"] = macs_text(head);
  }
  wanted["the model"] = macs_text(number(d.layers) * (attention + mlp) + head);
  return wanted;
}

/// Those of the modules of `wanted` in the profile.
inline std::map<std::string, std::string> found_macs(
    const std::string& text,
    const std::map<std::string, std::string>& wanted) {
  std::map<std::string, std::string> found;
  for (const auto& [module, macs] : wanted) {
    found[module] = row_of(text, module).macs;
  }
  return found;
}

} // namespace cairn::profiled_gpt
