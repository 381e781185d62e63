#include "engine/save/checkpoints.h"

#include "checkpoints/internal/damaged_checkpoint.h"
#include "checkpoints/internal/native_source.h"
#include "checkpoints/internal/slice_file.h"
#include "engine/save/client_state_json.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <utility>
#include <vector>

namespace cairn::inline engine {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Ranks may read at very different speeds.
constexpr std::chrono::hours longest_read{24};
constexpr std::chrono::seconds longest_load_arrival{30};

constexpr char damaged = 'd';
constexpr char unfit = 'u';

struct SliceList final : checkpoints::Sink {
  void put(const checkpoints::TensorSlice& slice) override {
    slices.push_back(slice);
  }
  std::vector<checkpoints::TensorSlice> slices;
};

void put_each(
    const std::vector<checkpoints::TensorSlice>& slices,
    checkpoints::Sink& sink) {
  for (const checkpoints::TensorSlice& slice : slices) {
    sink.put(slice);
  }
}

std::int64_t now_in_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// The name of a rank's own client state, a JSON text.
std::string rank_state_name(int rank) {
  return fmt::format("client_of_rank/{}", rank);
}

void put_rank_state(
    const ClientState& state,
    int rank,
    checkpoints::Sink& sink) {
  if (state.empty()) {
    return;
  }
  const std::string name = rank_state_name(rank);
  std::string text = to_json(state, name, sink).dump();
  const auto size = static_cast<std::int64_t>(text.size());
  sink.put(
      {.name = name,
       .shape = {size},
       .values = at::from_blob(text.data(), {size}, at::kByte).clone()});
}

/// A rank's own client state, empty if it has none.
ClientState rank_state_in(const checkpoints::Source& source, int rank) {
  const std::string name = rank_state_name(rank);
  if (!source.contains(name)) {
    return {};
  }
  const at::Tensor bytes = at::empty(source.shape(name), at::kByte);
  source.read(name, 0, bytes);
  const auto* text = bytes.const_data_ptr<std::uint8_t>();
  return client_state_from(json::parse(text, text + bytes.numel()), source);
}

/// Checkpoints to try, in this order; found by rank 0.
std::string candidates(
    const fs::path& folder,
    const std::optional<std::string>& tag,
    const Logger& logger) {
  const auto in_order = [&] {
    return checkpoints::load_order(folder, [&](const std::string& problem) {
      logger.warning("{}", problem);
    });
  };
  if (!tag) {
    return json(in_order()).dump();
  }
  checkpoints::check_tag(*tag);
  if (!fs::exists(folder / *tag / checkpoints::manifest_name)) {
    const auto others = in_order();
    throw CheckpointError(
        {.what = "there is no complete checkpoint",
         .where = (folder / *tag).string(),
         .remedy = others.empty()
             ? "there are no others either"
             : fmt::format("there is {}", fmt::join(others, ", "))});
  }
  return json{*tag}.dump();
}

/// Gives every rank the text of rank 0, which has that many bytes. It goes as a
/// tensor: a manifest of a thousand writers has megabytes, and all ranks would
/// ask the store for them at once.
void send_text(
    const distributed::ProcessGroup& group,
    std::string& text,
    std::int64_t bytes) {
  if (group.size() == 1 || bytes == 0) {
    return;
  }
  const at::Device device = group.backend() == "nccl" ? at::kCUDA : at::kCPU;
  text.resize(static_cast<std::size_t>(bytes));
  const at::Tensor host = at::from_blob(text.data(), {bytes}, at::kByte);
  host.copy_(group.broadcast(host.to(device), 0).wait());
}

/// The worst outcome of all ranks.
std::string worst(const std::vector<std::string>& outcomes) {
  std::string result;
  for (const std::string& outcome : outcomes) {
    if (!outcome.empty() && (result.empty() || outcome.front() == unfit)) {
      result = outcome;
    }
  }
  return result;
}

} // namespace

Checkpoints::Checkpoints(
    const Job& job,
    TrainedModel& trained,
    const Progress& progress,
    TrainingState& state,
    std::optional<model::ModelDescription> description)
    : job_(job),
      trained_(trained),
      progress_(progress),
      state_(state),
      description_(std::move(description)) {}

CheckpointWriter& Checkpoints::writer() {
  if (!writer_) {
    const config::CheckpointConfig& config = job_.deepspeed().checkpoint;
    writer_ = std::make_unique<CheckpointWriter>(
        job_.world.group(),
        std::vector{job_.world.group(), job_.group},
        job_.logger,
        checkpoints::Retention{
            .keep_last = config.keep_last,
            .keep_every = config.keep_every});
  }
  return *writer_;
}

/// Warns of states that the next checkpoint will lack.
void Checkpoints::warn_of_gaps(
    const fs::path& place,
    const SaveOptions& options) const {
  if (progress_.since_update != 0) {
    job_.logger.warning(
        "{}: saved between two micro batches of a step; their gradients are "
        "not saved",
        place.string());
  }
  if (const std::string why = trained_.optimizer->not_visited();
      !why.empty() && options.optimizer) {
    job_.logger.warning(
        "{}: not all states of the optimizer are saved, {}; whoever goes on "
        "from here starts them anew",
        place.string(),
        why);
  }
}

checkpoints::Manifest Checkpoints::manifest(
    const std::string& tag,
    const SaveOptions& options) const {
  checkpoints::Manifest manifest;
  manifest.tag = tag;
  manifest.step = progress_.global_steps;
  manifest.saved_at = now_in_nanoseconds();
  manifest.ties = trained_.shares.ties;
  manifest.state = state_.numbers(options);
  if (description_) {
    manifest.state["model"] = json::parse(model::to_json(*description_));
  }
  if (loader_) {
    const TrainingLoader::Position position = loader_->position();
    manifest.state["loader"] = {
        {"epoch", position.epoch},
        {"consumed_samples", position.consumed_samples}};
  }
  manifest.config = json::parse(job_.config.json());
  return manifest;
}

void Checkpoints::save(
    const fs::path& folder,
    const std::optional<std::string>& tag,
    const ClientState& client,
    const SaveOptions& options) {
  using Content = TrainingState::Content;
  const auto called = std::chrono::steady_clock::now();
  const torch::autograd::AutoGradMode no_grad(false);
  trained_.settle();
  const std::string name =
      tag.value_or(fmt::format("global_step{}", progress_.global_steps));
  CheckpointWriter::Save save{
      .place = writer().begin(folder, name),
      .manifest = {},
      .write_file = {},
      .called = called};
  SliceList client_tensors;
  if (job_.speaks()) {
    warn_of_gaps(folder / name, options);
    save.manifest = manifest(name, options);
    save.manifest.state["client"] = to_json(client, "client", client_tensors);
  }
  put_rank_state(options.of_rank, job_.world.rank(), client_tensors);
  const auto put_all = [&](checkpoints::Sink& sink, Content content) {
    state_.put(sink, options, content);
    put_each(client_tensors.slices, sink);
  };
  checkpoints::SlicePlan plan;
  put_all(plan, Content::description);

  const bool waits =
      options.wait.value_or(!job_.deepspeed().checkpoint.async) ||
      trained_.rests_on_disk();
  if (waits) {
    save.write_file = [&](const fs::path& path) {
      checkpoints::SliceFile file(path, plan.slices());
      put_all(file, Content::values);
      return file.finish();
    };
    writer().write(std::move(save));
  } else {
    snapshot_.clear(plan, job_.device.is_cuda());
    put_all(snapshot_, Content::values);
    save.write_file = [this, plan = std::move(plan)](const fs::path& path) {
      checkpoints::SliceFile file(path, plan.slices());
      put_each(snapshot_.slices(), file);
      return file.finish();
    };
    writer().write_behind(std::move(save));
  }
  last_ = {folder, name};
}

void Checkpoints::finish() {
  if (!writer_) {
    return;
  }
  if (const auto problem = writer_->finish()) {
    throw CheckpointError({.what = *problem});
  }
}

Checkpoints::Loaded Checkpoints::load(
    const fs::path& folder,
    const std::optional<std::string>& tag,
    const LoadOptions& options) {
  const torch::autograd::AutoGradMode no_grad(false);
  trained_.settle();
  if (const auto problem = writer().finish(); problem && job_.speaks()) {
    job_.logger.warning("the last checkpoint was not saved: {}", *problem);
  }
  const std::string found = writer().agree(
      "load_checkpoint",
      "",
      [&](const std::vector<std::string>&) {
        try {
          return candidates(folder, tag, job_.logger);
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
    if (job_.speaks()) {
      job_.logger.info(
          "no checkpoint in {}: starting from scratch",
          folder.string());
    }
    return {};
  }
  std::string problem;
  for (const std::string& name : tags) {
    const fs::path place = folder / name;
    ClientState client;
    std::string manifest;
    problem = why_no_manifest(place, manifest);
    if (problem.empty()) {
      problem = writer().agree(
          "the end of load_checkpoint",
          why_not_loaded(place, manifest, options, client),
          worst,
          longest_read);
    }
    if (problem.empty()) {
      trained_.publish_restored();
      last_ = {folder, name};
      return {place, std::move(client)};
    }
    if (problem.front() == unfit || tag) {
      break;
    }
    if (job_.speaks()) {
      job_.logger.warning(
          "{} cannot be loaded, trying the next older one: {}",
          place.string(),
          problem.substr(1));
    }
  }
  throw CheckpointError({.what = problem.substr(1)});
}

ClientState Checkpoints::take(
    const checkpoints::Source& tensors,
    const std::string& numbers,
    const LoadOptions& options) {
  const torch::autograd::AutoGradMode no_grad(false);
  trained_.settle();
  ClientState client;
  std::string mine;
  try {
    const json saved = json::parse(numbers);
    state_.restore(tensors, saved, options);
    client = client_state_from(saved.at("client"), tensors);
  } catch (const json::exception& error) {
    mine = unfit + std::string(error.what());
  } catch (const Error& error) {
    mine = unfit + std::string(error.what());
  }
  const std::string problem =
      writer().agree("the end of restore_state", mine, worst, longest_read);
  if (!problem.empty()) {
    throw CheckpointError({.what = problem.substr(1)});
  }
  trained_.publish_restored();
  return client;
}

std::optional<fs::path> Checkpoints::roll_back() {
  if (!last_) {
    return std::nullopt;
  }
  const Place from = *last_;
  return load(from.folder, from.tag, {.data = false}).first;
}

/// Reads the text of a manifest on rank 0, which looks for all files as well,
/// and sends it to the others: a thousand ranks do not all read the same file
/// and look for a thousand others. Returns an empty text, or the kind of
/// failure and its reason, the same on all ranks.
std::string Checkpoints::why_no_manifest(
    const fs::path& place,
    std::string& text) {
  const std::string outcome = writer().agree(
      "the manifest of load_checkpoint",
      "",
      [&](const std::vector<std::string>&) {
        try {
          text = checkpoints::read_manifest_text(place);
          checkpoints::check_files(
              checkpoints::manifest_from_text(text, place),
              place);
          return std::to_string(text.size());
        } catch (const checkpoints::DamagedCheckpoint& error) {
          return damaged + std::string(error.what());
        } catch (const Error& error) {
          return unfit + std::string(error.what());
        }
      },
      longest_read);
  if (outcome.front() == damaged || outcome.front() == unfit) {
    return outcome;
  }
  send_text(job_.world.group(), text, std::stoll(outcome));
  return {};
}

/// Loads a checkpoint. Returns an empty text, or the kind of failure and its
/// reason.
std::string Checkpoints::why_not_loaded(
    const fs::path& place,
    const std::string& manifest,
    const LoadOptions& options,
    ClientState& client) {
  try {
    client = restore(place, manifest, options);
    return {};
  } catch (const checkpoints::DamagedCheckpoint& error) {
    return damaged + std::string(error.what());
  } catch (const json::exception& error) {
    return fmt::format("{}{}: {}", damaged, place.string(), error.what());
  } catch (const Error& error) {
    return unfit + std::string(error.what());
  }
}

ClientState Checkpoints::restore(
    const fs::path& place,
    const std::string& manifest,
    const LoadOptions& options) {
  const checkpoints::NativeSource source(
      place,
      checkpoints::manifest_from_text(manifest, place),
      {.readers = job_.world.environment().local_world_size});
  const json& saved = source.manifest().state;
  if (options.optimizer && !saved.contains("optimizer")) {
    throw CheckpointError(
        {.what = "saved without the optimizer's states",
         .where = place.string(),
         .remedy = "load with LoadOptions{.optimizer = false}"});
  }
  state_.restore(source, saved, options);
  if (options.data && loader_ && saved.contains("loader")) {
    const json& loader = saved.at("loader");
    loader_->resume(
        {.epoch = loader.at("epoch"),
         .consumed_samples = loader.at("consumed_samples")});
  }
  ClientState client = client_state_from(saved.at("client"), source);
  if (saved.at("ranks") == job_.world.size()) {
    for (auto& [name, value] : rank_state_in(source, job_.world.rank())) {
      client[name] = std::move(value);
    }
  }
  return client;
}

} // namespace cairn::engine
