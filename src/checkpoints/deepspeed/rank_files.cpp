#include "checkpoints/deepspeed/rank_files.h"

#include "checkpoints/deepspeed/flat_optimizer.h"
#include "checkpoints/tensors/in_file.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::checkpoints::deepspeed {

namespace {

namespace fs = std::filesystem;
using Kind = PythonValue::Kind;

[[noreturn]] void contradicts(
    const fs::path& file,
    std::string what,
    std::string values) {
  throw CheckpointError(
      {.what = std::move(what),
       .where = file.string(),
       .values = std::move(values),
       .remedy = "the files of a folder must be of one save"});
}

/// The stage, which is saved as a plain number or as a ZeroStageEnum.
int stage_of(const PythonValue& optimizer) {
  const auto saved = optimizer.find("zero_stage");
  if (!saved) {
    return 1; // DeepSpeed's BF16_Optimizer has none
  }
  const PythonValue number = saved->is(Kind::object) && saved->size() == 1
      ? saved->items()[0]
      : *saved;
  const std::int64_t stage = number.integer();
  if (stage < 1 || stage > 3) {
    throw CheckpointError(
        {.what = "an unknown ZeRO stage", .values = std::to_string(stage)});
  }
  return static_cast<int>(stage);
}

std::vector<std::int64_t> partition_counts(const PythonValue& optimizer) {
  std::vector<std::int64_t> result;
  if (const auto saved = member(optimizer, "partition_count")) {
    if (saved->is(Kind::integer)) {
      return {saved->integer()};
    }
    for (const PythonValue& count : saved->items()) {
      result.push_back(count.integer());
    }
  }
  return result;
}

void read_models(RankFiles& files, int model_rank) {
  const auto single = files.all.models.find(model_rank);
  files.model_files = of_rank(files.all.zero_models, model_rank);
  if (single != files.all.models.end()) {
    if (!files.model_files.empty()) {
      contradicts(
          single->second,
          "beside files of stage 3",
          files.model_files[0].filename().string());
    }
    files.model_files = {single->second};
  }
  if (files.model_files.empty()) {
    throw CheckpointError(
        {.what = fmt::format("nothing of model-parallel rank {}", model_rank),
         .where = files.all.folder.string()});
  }
  for (const fs::path& file : files.model_files) {
    const PythonValue& model = files.models.emplace_back(read_torch_file(file));
    in_file(file, [&] {
      const auto step = model.find("global_steps");
      const auto first = files.models.front().find("global_steps");
      if (step && first && step->integer() != first->integer()) {
        contradicts(
            file,
            "of another step than other ranks",
            fmt::format(
                "{}, rank 0 has {}",
                step->integer(),
                first->integer()));
      }
    });
  }
}

void read_optimizers(RankFiles& files, const std::vector<fs::path>& paths) {
  files.ranks = static_cast<std::int64_t>(paths.size());
  for (const fs::path& path : paths) {
    const PythonValue file = read_torch_file(path);
    in_file(path, [&] {
      const PythonValue optimizer = file.at("optimizer_state_dict");
      const int stage = stage_of(optimizer);
      if (!files.optimizers.empty() && stage != files.stage) {
        contradicts(
            path,
            "of another ZeRO stage than other ranks",
            fmt::format("{}, rank 0 has {}", stage, files.stage));
      }
      files.stage = stage;
      for (const std::int64_t count : partition_counts(optimizer)) {
        if (count != files.ranks) {
          contradicts(
              path,
              "there are not as many files as ranks",
              fmt::format("{} ranks, {} files", count, files.ranks));
        }
      }
      files.optimizers.push_back(optimizer);
    });
  }
}

void check_ranks(RankFiles& files) {
  const fs::path& first = files.model_files[0];
  const bool stage_3 = first.filename().string().starts_with("zero_pp_rank_");
  if (stage_3 != (files.stage == 3) ||
      (stage_3 && files.model_files.size() != files.optimizers.size())) {
    contradicts(
        first,
        "does not fit the optimizer's files",
        fmt::format(
            "{} files of the model, {} of the optimizer, stage {}",
            files.model_files.size(),
            files.optimizers.size(),
            files.stage));
  }
  in_file(first, [&] {
    const auto ranks = member(files.models[0], "dp_world_size");
    if (files.stage == 0) {
      files.ranks = ranks ? ranks->integer() : 1;
    } else if (ranks && ranks->integer() != files.ranks) {
      contradicts(
          first,
          "there are not as many optimizer files as ranks",
          fmt::format("{} ranks, {} files", ranks->integer(), files.ranks));
    }
  });
}

} // namespace

std::optional<PythonValue> member(const PythonValue& dict, const char* key) {
  auto found = dict.find(key);
  return found && !found->is_none() ? found : std::nullopt;
}

ShapeGroups shape_groups(const PythonValue& param_shapes) {
  const auto groups = param_shapes.is(Kind::dict)
      ? std::vector<PythonValue>{param_shapes} // written by old versions
      : param_shapes.items();
  ShapeGroups result;
  for (const PythonValue& group : groups) {
    auto& own = result.emplace_back();
    for (const auto& [name, sizes] : group.entries()) {
      Shape shape;
      for (const PythonValue& size : sizes.items()) {
        shape.push_back(size.integer());
      }
      elements_of(shape); // throws if the shape is impossible
      own.emplace_back(name.text(), std::move(shape));
    }
  }
  return result;
}

RankFiles read_rank_files(const DeepSpeedSource& source) {
  RankFiles files{.all = tag_files(source.folder, source.tag)};
  if (!files.all.experts.empty()) {
    throw CheckpointError(
        {.what = "experts of DeepSpeed's are read of Megatron-DeepSpeed's "
                 "models alone",
         .where = files.all.folder.string()});
  }
  read_models(files, source.model_parallel_rank);
  read_optimizers(
      files,
      of_rank(files.all.optimizers, source.model_parallel_rank));
  const PythonValue& model = files.models[0];
  const fs::path& file = files.model_files[0];
  const auto shapes =
      in_file(file, [&] { return member(model, "param_shapes"); });
  if (shapes && files.optimizers.empty()) {
    throw CheckpointError(
        {.what = "the optimizer's files are missing",
         .where = files.all.folder.string(),
         .values = "*_optim_states.pt of every rank"});
  }
  check_ranks(files);
  if (!files.optimizers.empty()) {
    auto groups = in_file(file, [&] {
      return shape_groups(shapes ? *shapes : model.at("param_shapes"));
    });
    constexpr FlatKeys by_group{
        "single_partition_of_fp32_groups",
        "base_optimizer_state"};
    constexpr FlatKeys by_parameter{
        "fp32_flat_groups",
        "optimizer_state_dict",
        true};
    files.zero = std::make_shared<FlatOptimizer>(
        files.stage == 3 ? by_parameter : by_group,
        std::move(groups),
        files.optimizers,
        of_rank(files.all.optimizers, source.model_parallel_rank));
  }
  return files;
}

} // namespace cairn::checkpoints::deepspeed
