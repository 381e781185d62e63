#include "checkpoint/native/damaged_checkpoint.h"
#include "checkpoint/native/native_source.h"
#include "engine/checkpoint_names.h"
#include "engine/client_state_json.h"
#include "engine/core.h"
#include "engine/scaler_state.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace cairn::engine {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Ranks may read at very different speeds.
constexpr std::chrono::hours longest_read{24};
constexpr std::chrono::seconds longest_load_arrival{30};

constexpr char damaged = 'd';
constexpr char unfit = 'u';

/// What to try, in this order; found by rank 0.
std::string candidates(
    const fs::path& folder,
    const std::optional<std::string>& tag) {
  if (!tag) {
    return json(checkpoints::load_order(folder)).dump();
  }
  checkpoints::check_tag(*tag);
  if (!fs::exists(folder / *tag / checkpoints::manifest_name)) {
    const auto others = checkpoints::load_order(folder);
    throw CheckpointError(
        {.what = "there is no complete checkpoint",
         .where = (folder / *tag).string(),
         .remedy = others.empty()
             ? "there are no others either"
             : fmt::format("there is {}", fmt::join(others, ", "))});
  }
  return json{*tag}.dump();
}

/// The worst of what the ranks say.
std::string worst(const std::vector<std::string>& outcomes) {
  std::string result;
  for (const std::string& outcome : outcomes) {
    if (!outcome.empty() && (result.empty() || outcome.front() == unfit)) {
      result = outcome;
    }
  }
  return result;
}

/// `range` of what this rank has of a parameter; past its end is padding.
void ask_for(
    std::vector<checkpoints::SliceToRead>& slices,
    const std::string& name,
    const ParameterShare& share,
    zero::Range range,
    const at::Tensor& part) {
  const std::int64_t size = std::min(range.end, share.elements) - range.begin;
  if (size < part.numel()) {
    part.zero_();
  }
  if (size > 0) {
    slices.push_back(
        {.name = name,
         .box = share.box,
         .begin = range.begin,
         .into = part.narrow(0, 0, size)});
  }
}

} // namespace

std::pair<std::optional<fs::path>, ClientState> Core::load_checkpoint(
    const fs::path& folder,
    const std::optional<std::string>& tag,
    const LoadOptions& options) {
  const torch::autograd::AutoGradMode no_grad(false);
  CheckpointWriter& writer = checkpoint_writer();
  if (const auto problem = writer.finish(); problem && world_.rank() == 0) {
    logger_.warning("the last checkpoint was not saved: {}", *problem);
  }
  const std::string found = writer.agree(
      "load_checkpoint",
      "",
      [&](const std::vector<std::string>&) {
        try {
          return candidates(folder, tag);
        } catch (const Error& error) {
          return unfit + std::string(error.what());
        }
      },
      longest_load_arrival);
  if (found.front() == unfit) {
    throw CheckpointError({.what = found.substr(1)});
  }
  const auto tags = json::parse(found).get<std::vector<std::string>>();
  if (tags.empty()) {
    if (world_.rank() == 0) {
      logger_.info(
          "no checkpoint in {}: starting from scratch",
          folder.string());
    }
    return {};
  }
  std::string problem;
  for (const std::string& name : tags) {
    const fs::path place = folder / name;
    ClientState client;
    problem = writer.agree(
        "the end of load_checkpoint",
        why_not_loaded(place, options, client),
        worst,
        longest_read);
    if (problem.empty()) {
      publish_restored();
      last_checkpoint_ = {folder, name};
      return {place, std::move(client)};
    }
    if (problem.front() == unfit || tag) {
      break;
    }
    if (world_.rank() == 0) {
      logger_.warning(
          "{} cannot be loaded, trying the next older one: {}",
          place.string(),
          problem.substr(1));
    }
  }
  throw CheckpointError({.what = problem.substr(1)});
}

/// Empty if it is loaded; else how bad it is, and what.
std::string Core::why_not_loaded(
    const fs::path& place,
    const LoadOptions& options,
    ClientState& client) {
  try {
    client = restore(place, options);
    return {};
  } catch (const checkpoints::DamagedCheckpoint& error) {
    return damaged + std::string(error.what());
  } catch (const json::exception& error) {
    return fmt::format("{}{}: {}", damaged, place.string(), error.what());
  } catch (const Error& error) {
    return unfit + std::string(error.what());
  }
}

/// Brings what every rank has read to the others.
void Core::publish_restored() {
  optimizer_->publish_weights();
  for (int b = 0; b < flat_->buckets(); ++b) {
    if (!layout_->buckets()[b].trainable && !flat_->partitioned(b) &&
        groups_.shards.size() > 1) {
      flat_->publish(b).wait();
    }
  }
  if (gatherer_) {
    gatherer_->release_all();
  }
  if (pipeline_) {
    pipeline_->share_tied_weights();
  }
}

/// This rank's part; nobody else is asked, so that one rank may fail alone.
ClientState Core::restore(const fs::path& place, const LoadOptions& options) {
  const checkpoints::NativeSource source(
      place,
      {.readers = world_.environment().local_world_size});
  const json& state = source.manifest().state;
  if (options.optimizer && !state.contains("optimizer")) {
    throw CheckpointError(
        {.what = "saved without the optimizer's states",
         .where = place.string(),
         .remedy = "load with LoadOptions{.optimizer = false}"});
  }
  restore_optimizer(source, state, options);
  restore_frozen(source);
  if (options.steps) {
    counters_.micro_steps = state.at("micro_steps");
    counters_.since_update = 0;
    counters_.global_steps = state.at("global_steps");
    // Others' formats do not say; then all batches were as they are here.
    counters_.samples =
        state.value("samples", counters_.global_steps * batch().train);
    counters_.skipped_steps = state.at("skipped_steps");
  }
  if (options.data && loader_ && state.contains("loader")) {
    const json& loader = state.at("loader");
    loader_->resume(
        {.epoch = loader.at("epoch"),
         .consumed_samples = loader.at("consumed_samples")});
  }
  if (options.schedule) {
    counters_.schedule_steps = state.at("schedule_steps");
  }
  if (options.rng && state.at("rng").get<bool>()) {
    restore_generators(source, state);
  }
  apply_schedule();
  backward_done_ = false;
  return client_state_from(state.at("client"), source);
}

void Core::restore_optimizer(
    const checkpoints::Source& source,
    const json& state,
    const LoadOptions& options) {
  if (options.optimizer) {
    const json& saved = state.at("optimizer");
    const std::string saved_by = saved.at("name");
    if (saved_by != optimizer_->name()) {
      throw CheckpointError(
          {.what = "saved with another optimizer",
           .values =
               fmt::format("{}, this run has {}", saved_by, optimizer_->name()),
           .remedy = "name the same optimizer in the configuration, or load "
                     "with LoadOptions{.optimizer = false}"});
    }
    optimizer_->set_steps(saved.at("steps"));
    if (!from_json(state.at("loss_scaler"), scaler_) && world_.rank() == 0) {
      logger_.warning(
          "saved with another loss scaler; this run starts with its own");
    }
  }
  std::vector<checkpoints::SliceToRead> slices;
  const auto note = [&](const zero::Slice& slice,
                        std::string_view kind,
                        at::Tensor& part) {
    const zero::ParameterSpec& spec = layout_->parameters()[slice.parameter];
    const ParameterShare& share = shares_.parameters[slice.parameter];
    const std::string name = name_of(kind, spec.name);
    if (source.contains(name) && source.shape(name) != share.whole) {
      throw CheckpointError(
          {.what = "the model has another shape",
           .where = spec.name,
           .values = fmt::format(
               "saved [{}], here [{}]",
               fmt::join(source.shape(name), ", "),
               fmt::join(share.whole, ", "))});
    }
    ask_for(slices, name, share, slice.in_parameter, part);
  };
  optimizer_->visit(
      true,
      [&](int bucket,
          zero::Range held,
          std::string_view kind,
          at::Tensor& values) {
        if (options.optimizer || kind == weight_kind) {
          slices.clear();
          for_each_slice(bucket, held, held, kind, values, note);
          source.read(slices);
        }
      });
  if (options.optimizer) {
    optimizer_->visit_numbers(
        true,
        [&](int group, std::string_view name, double& value) {
          at::Tensor number = at::empty({1}, at::kDouble);
          source.read(number_name(group, name), 0, number);
          value = number.item<double>();
        });
  }
}

void Core::restore_frozen(const checkpoints::Source& source) {
  for (int b = 0; b < flat_->buckets(); ++b) {
    if (layout_->buckets()[b].trainable) {
      continue;
    }
    const zero::Range mine = layout_->shard(b, rank_in(b));
    at::Tensor shard = flat_->acquire_shard(b);
    std::vector<checkpoints::SliceToRead> slices;
    for_each_slice(
        b,
        mine,
        mine,
        weight_kind,
        shard,
        [&](const zero::Slice& slice, std::string_view kind, at::Tensor& part) {
          ask_for(
              slices,
              name_of(kind, layout_->parameters()[slice.parameter].name),
              shares_.parameters[slice.parameter],
              slice.in_parameter,
              part);
        });
    source.read(slices);
    flat_->give_back_shard(b, true);
  }
  for (auto& buffer : model_.module().named_buffers()) {
    at::Tensor values =
        at::empty({buffer.value().numel()}, buffer.value().scalar_type());
    source.read(name_of(buffer_kind, buffer.key()), 0, values);
    buffer.value().copy_(values.view(buffer.value().sizes()));
  }
}

void Core::restore_generators(
    const checkpoints::Source& source,
    const json& state) {
  // Ranks of a tensor group must draw alike, which those of another layout
  // did not.
  const json cut = state.value("mesh", mesh_degrees()); // older: not told
  if (state.at("ranks") != world_.size() || cut != mesh_degrees()) {
    if (world_.rank() == 0) {
      logger_.info(
          "saved by {} ranks {}, loaded by {} {}: random generators go on as "
          "they are",
          state.at("ranks").get<int>(),
          cut.dump(),
          world_.size(),
          mesh_degrees().dump());
    }
    return;
  }
  for (const at::Device device : generator_devices(device_)) {
    const std::string name = generator_name(device.type(), world_.rank());
    if (source.contains(name)) { // else saved on another kind of device
      at::Generator generator = at::globalContext().defaultGenerator(device);
      at::Tensor bytes = generator.get_state();
      source.read(name, 0, bytes);
      generator.set_state(bytes);
    }
  }
}

} // namespace cairn::engine
