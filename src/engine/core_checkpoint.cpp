#include "checkpoint/native/slice_file.h"
#include "engine/checkpoint_names.h"
#include "engine/client_state_json.h"
#include "engine/core.h"
#include "engine/put_slice.h"
#include "engine/scaler_state.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

// What an engine saves: slices of named tensors (who owns which, the layout
// says), and the rest in the manifest. Names are the parameters' own, so
// nothing saved depends on the number of ranks, the ZeRO stage or the buckets.

namespace cairn::engine {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

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

} // namespace

CheckpointWriter& Core::checkpoint_writer() {
  if (!checkpoint_writer_) {
    checkpoint_writer_ = std::make_unique<CheckpointWriter>(
        world_.group(),
        std::vector{world_.group(), group_},
        logger_,
        checkpoints::Retention{
            .keep_last = config().checkpoint.keep_last,
            .keep_every = config().checkpoint.keep_every});
  }
  return *checkpoint_writer_;
}

int Core::model_rank() const {
  return mesh_ ? mesh_->model_parallel().rank() : 0;
}

/// Whether this rank counts and saves what others hold too.
bool Core::speaks_for(const ParameterShare& share) const {
  return share.holders.front() == model_rank();
}

/// Whether this rank saves what is one for a parameter group.
bool Core::speaks_for(int group) const {
  if (group_speakers_[group] != model_rank() || groups_.replicas.rank() != 0) {
    return false;
  }
  for (int b = 0; b < flat_->buckets(); ++b) {
    const zero::Range whole{0, layout_->buckets()[b].elements};
    for (const zero::Segment& segment : layout_->segments(b, whole)) {
      if (segment.group == group && layout_->buckets()[b].trainable) {
        const zero::Range mine = layout_->shard(b, rank_in(b));
        const bool first_experts = !layout_->buckets()[b].expert ||
            mesh_->coordinate(distributed::Axis::expert) == 0;
        return first_experts && mine.begin <= segment.in_bucket.begin &&
            segment.in_bucket.begin < mine.end;
      }
    }
  }
  return false;
}

/// What of a stretch that several ranks may hold this one saves.
zero::Range Core::saved_here(int bucket, zero::Range held) const {
  const zero::Range mine = layout_->shard(bucket, rank_in(bucket));
  const std::int64_t begin = std::max(held.begin, mine.begin);
  if (groups_.replicas.rank() != 0) { // the first copy is the one that counts
    return {begin, begin};
  }
  return {begin, std::max(begin, std::min(held.end, mine.end))};
}

void Core::for_each_slice(
    int bucket,
    zero::Range held,
    zero::Range wanted,
    std::string_view kind,
    at::Tensor& values,
    const VisitSlice& visit) const {
  for (const zero::Slice& slice : layout_->slices(bucket, wanted)) {
    at::Tensor part =
        values.narrow(0, slice.offset - held.begin, slice.in_parameter.size());
    visit(slice, kind, part);
  }
}

void Core::put_slices(
    checkpoints::Sink& sink,
    int bucket,
    zero::Range held,
    std::string_view kind,
    at::Tensor& values) const {
  const PutSlice put{*layout_, shares_.parameters, model_rank(), sink};
  for_each_slice(bucket, held, saved_here(bucket, held), kind, values, put);
}

bool Core::rests_on_disk() const {
  return optimizer_->bytes().disk > 0 || flat_->bytes().on_disk > 0;
}

void Core::put_state(
    checkpoints::Sink& sink,
    const SaveOptions& options,
    bool describe) {
  const auto put_held = [&](int bucket,
                            zero::Range held,
                            std::string_view kind,
                            at::Tensor& values) {
    if (options.optimizer || kind == weight_kind) {
      put_slices(sink, bucket, held, kind, values);
    }
  };
  if (describe) {
    for (const auto& held : optimizer_->held()) {
      at::Tensor values = at::empty(
          {held.range.size()},
          at::TensorOptions(held.type).device(at::kMeta));
      put_held(held.bucket, held.range, held.name, values);
    }
  } else {
    optimizer_->visit(false, put_held);
  }
  put_frozen(sink, describe);
  if (options.optimizer) {
    put_numbers(sink);
  }
  if (options.rng) {
    put_generators(sink);
  }
}

void Core::put_numbers(checkpoints::Sink& sink) {
  std::set<std::string> numbers; // stretches of a group have the same
  optimizer_->visit_numbers(
      false,
      [&](int group, std::string_view kind, double& value) {
        const std::string named = number_name(group, kind);
        if (speaks_for(group) && numbers.insert(named).second) {
          sink.put(
              {.name = named,
               .shape = {1},
               .values = at::full({1}, value, at::kDouble)});
        }
      });
}

void Core::put_generators(checkpoints::Sink& sink) const {
  for (const at::Device device : generator_devices(device_)) {
    const at::Tensor state =
        at::globalContext().defaultGenerator(device).get_state();
    sink.put(
        {.name = generator_name(device.type(), world_.rank()),
         .shape = {state.numel()},
         .values = state});
  }
}

/// Frozen parameters and buffers, which the optimizer does not know.
void Core::put_frozen(checkpoints::Sink& sink, bool describe) {
  for (int b = 0; b < flat_->buckets(); ++b) {
    if (layout_->buckets()[b].trainable) {
      continue;
    }
    const zero::Range mine = layout_->shard(b, rank_in(b));
    at::Tensor shard = describe
        ? at::empty(
              {mine.size()},
              at::TensorOptions(flat_->whole(b).scalar_type())
                  .device(at::kMeta))
        : flat_->acquire_shard(b);
    put_slices(sink, b, mine, weight_kind, shard);
    if (!describe) {
      flat_->give_back_shard(b, false);
    }
  }
  if (group_.rank() == 0) {
    auto share = shares_.buffers.begin();
    for (const auto& buffer : model_.module().named_buffers()) {
      if (speaks_for(*share++)) {
        sink.put(
            {.name = name_of(buffer_kind, buffer.key()),
             .shape = buffer.value().sizes().vec(),
             .values = buffer.value().detach().contiguous().view({-1})});
      }
    }
  }
}

/// How a model is cut over the ranks: degrees above 1.
json Core::mesh_degrees() const {
  using distributed::Axis;
  json degrees = json::object();
  for (const Axis axis :
       {Axis::tensor, Axis::context, Axis::pipeline, Axis::expert}) {
    if (mesh_ && mesh_->degree(axis) > 1) {
      degrees[distributed::axis_name(axis)] = mesh_->degree(axis);
    }
  }
  return degrees;
}

json Core::saved_state(const SaveOptions& options) const {
  json state{
      {"ranks", world_.size()},
      {"mesh", mesh_degrees()},
      {"zero_stage", static_cast<int>(config().zero.stage)},
      {"micro_steps", counters_.micro_steps - counters_.since_update},
      {"global_steps", counters_.global_steps},
      {"samples", counters_.samples},
      {"skipped_steps", counters_.skipped_steps},
      {"schedule_steps", counters_.schedule_steps},
      {"rng", options.rng}};
  if (description_) {
    state["model"] = json::parse(checkpoints::to_json(*description_));
  }
  if (options.optimizer) {
    state["optimizer"] = {
        {"name", optimizer_->name()},
        {"steps", optimizer_->steps()}};
    state["loss_scaler"] = to_json(scaler_);
  }
  if (loader_) {
    const TrainingLoader::Position position = loader_->position();
    state["loader"] = {
        {"epoch", position.epoch},
        {"consumed_samples", position.consumed_samples}};
  }
  return state;
}

void Core::save_checkpoint(
    const fs::path& folder,
    const std::optional<std::string>& tag,
    const ClientState& client,
    const SaveOptions& options) {
  const auto called = std::chrono::steady_clock::now();
  const torch::autograd::AutoGradMode no_grad(false);
  const std::string name =
      tag.value_or(fmt::format("global_step{}", counters_.global_steps));
  CheckpointWriter& writer = checkpoint_writer();
  const auto place = writer.begin(folder, name);
  if (world_.rank() == 0) {
    if (counters_.since_update != 0) {
      logger_.warning(
          "{}: saved between two micro batches of a step; their gradients are "
          "not saved",
          (folder / name).string());
    }
    if (const std::string why = optimizer_->not_visited();
        !why.empty() && options.optimizer) {
      logger_.warning(
          "{}: not all states of the optimizer are saved, {}; whoever goes on "
          "from here starts them anew",
          (folder / name).string(),
          why);
    }
  }

  checkpoints::Manifest manifest;
  SliceList client_tensors;
  if (world_.rank() == 0) {
    manifest.tag = name;
    manifest.step = counters_.global_steps;
    manifest.saved_at = now_in_nanoseconds();
    manifest.ties = shares_.ties;
    manifest.state = saved_state(options);
    manifest.state["client"] = to_json(client, client_tensors);
    manifest.config = json::parse(config_.json());
  }
  const auto put_all = [&](checkpoints::Sink& sink, bool describe) {
    put_state(sink, options, describe);
    put_each(client_tensors.slices, sink);
  };
  checkpoints::SlicePlan plan;
  put_all(plan, true);

  const bool behind =
      !options.wait.value_or(!config().checkpoint.async) && !rests_on_disk();
  if (behind) {
    snapshot_.clear(plan, device_.is_cuda());
    put_all(snapshot_, false);
    writer.write_behind(
        {.place = place,
         .manifest = std::move(manifest),
         .write_file =
             [this, plan = std::move(plan)](const fs::path& path) {
               checkpoints::SliceFile file(path, plan.slices());
               put_each(snapshot_.slices(), file);
               return file.finish();
             },
         .called = called});
  } else {
    writer.write(
        {.place = place,
         .manifest = std::move(manifest),
         .write_file =
             [&](const fs::path& path) {
               checkpoints::SliceFile file(path, plan.slices());
               put_all(file, false);
               return file.finish();
             },
         .called = called});
  }
  last_checkpoint_ = {folder, name};
}

void Core::finish_checkpoint() {
  if (!checkpoint_writer_) {
    return;
  }
  if (const auto problem = checkpoint_writer_->finish()) {
    throw CheckpointError({.what = *problem});
  }
}

} // namespace cairn::engine
