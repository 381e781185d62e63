#include "plan/published.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/model/parameters.h>
#include <cairn/model/presets.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cairn::plan {
namespace {

using Json = nlohmann::json;

model::ModelDescription model_from(
    const Json& json,
    std::int64_t sequence,
    std::int64_t tensor) {
  const auto number = [&](const char* key, std::int64_t other) {
    return json.value(key, other);
  };
  const std::int64_t vocabulary = json.at("vocabulary");
  const model::ModelSizes sizes{
      .layers = json.at("layers"),
      .hidden = json.at("hidden"),
      .heads = json.at("heads"),
      .sequence = sequence,
      .vocabulary = vocabulary,
      .padded_vocabulary = model::padded_vocabulary(vocabulary, 128 * tensor),
      .dropout = json.value("dropout", 0.0)};
  if (json.value("llama", false)) {
    return model::with_padding(model::llama_description(
        sizes,
        number("key_value_heads", sizes.heads),
        json.at("ffn")));
  }
  const std::string family = json.value("family", "gpt");
  if (family == "t5") {
    model::ModelDescription t5 = model::t5_description(sizes);
    if (json.value("relative", false)) {
      t5.position = model::PositionKind::relative;
      t5.relative_buckets = 32;
    }
    return model::with_padding(t5);
  }
  if (family == "bert") {
    return model::with_padding(
        model::bert_description(sizes, model::BinaryHead::without));
  }
  model::ModelDescription gpt = model::gpt_description(sizes);
  gpt.attention_dropout = sizes.dropout;
  return model::with_padding(gpt);
}

Program::Loss loss_from(const std::string& name) {
  return name == "chunks"       ? Program::Loss::chunks
      : name == "chunks_of_cpu" ? Program::Loss::chunks_of_cpu
                                : Program::Loss::whole;
}

Program program_from(const Json& json, StateBytes& states) {
  const std::string kind = json.at("elementwise");
  const std::string attention = json.at("attention");
  states.gradient = json.at("gradient_bytes");
  states.master = json.value("master_bytes", states.master);
  states.moments = json.value("moments_bytes", states.moments);
  return {
      .is_cairn = json.value("is_cairn", false),
      .elementwise = kind == "pieces" ? Program::Elementwise::pieces
          : kind == "eager"           ? Program::Elementwise::eager
          : kind == "fused"           ? Program::Elementwise::fused
                                      : Program::Elementwise::compiled,
      .attention = attention == "scores" ? Program::Attention::scores
          : attention == "flash"         ? Program::Attention::flash
                                         : Program::Attention::fast,
      .overlaps_gradients = json.at("overlaps_gradients"),
      .overlaps_gathers = json.at("overlaps_gathers"),
      .gathers_ahead = json.value("gathers_ahead", false),
      .overlaps_tensor = json.value("overlaps_tensor", false),
      .loss = loss_from(json.value("loss", "whole")),
      .logit_bytes = json.value("logit_bytes", 0.0),
      .kept_share = json.value("kept_share", 1.0),
      .keeps_eight_bit = json.value("keeps_eight_bit", false),
      .eight_bit_copies = json.value("eight_bit_copies", 0.0),
      .fused_gate = json.value("fused_gate", false),
      .scored_share = json.value("scored_share", 1.0),
      .bucket_elements = json.value("bucket_elements", 0.0),
      .bucket_copies = json.value("bucket_copies", 2.0),
      .second_copy_bytes = json.value("second_copy_bytes", 0.0),
      .live_elements = json.value("live_elements", 0.0),
      .fragmentation = json.value("fragmentation", 0.0),
      .step_bytes = json.value("step_bytes", 0.0),
      .step_reads = json.value("step_reads", 0.0),
      .reduces_whole = json.value("reduces_whole", false)};
}

RunLayout layout_from(const Json& row) {
  const auto number = [&](const char* key, std::int64_t other = 1) {
    return row.value(key, other);
  };
  const std::string again = row.at("recompute");
  RunLayout run{
      .gpus = number("gpus"),
      .tensor = number("tensor"),
      .pipeline = number("pipeline"),
      .context = number("context"),
      .schedule = number("chunks") > 1 ? "interleaved" : "1f1b",
      .chunks = number("chunks"),
      .zero_stage = row.value("zero", 0),
      .micro_batch = number("micro"),
      .global_batch = number("global"),
      .sequence_parallel = row.value("sequence_parallel", false),
      .recompute = again == "blocks" ? Recompute::blocks
          : again == "scores"        ? Recompute::scores
                                     : Recompute::nothing,
      .weight_bits = row.value("weight_bits", 16),
      .gradient_bits = row.value("gradient_bits", 16),
      .second_copy_ranks = number("second_copy", 0)};
  run.recomputed_blocks = number("recomputed_blocks", 0);
  if (row.contains("offload")) {
    run.optimizer = row.at("offload") == "nvme" ? Place::nvme : Place::cpu;
    run.offloaded = row.value("offloaded", 1.0);
    run.offloaded_to_host = row.value("offloaded_to_host", 0.0);
    run.update_on_gpu = row.value("update_on_gpu", false);
  }
  return run;
}

/// Tables give samples or tokens a second, seconds, or TFLOP/s with blocks
/// computed twice.
std::optional<double> seconds_of(const Json& row, const PublishedRow& read) {
  const auto samples = static_cast<double>(read.layout.global_batch);
  const auto gpus = static_cast<double>(read.layout.gpus);
  const auto sequence = static_cast<double>(read.training.sequence);
  if (row.contains("iteration_seconds")) {
    return row.at("iteration_seconds").get<double>();
  }
  if (row.contains("samples_per_second")) {
    return samples / row.at("samples_per_second").get<double>();
  }
  if (row.contains("tokens_per_second_per_gpu")) {
    return samples * static_cast<double>(read.training.tokens()) / gpus /
        row.at("tokens_per_second_per_gpu").get<double>();
  }
  if (row.contains("hardware_tflops")) {
    const model::ModelDescription& d = read.training.model;
    const auto l = static_cast<double>(d.layers);
    const auto h = static_cast<double>(d.hidden);
    const auto v = static_cast<double>(d.padded_vocabulary);
    const double operations = 96 * samples * sequence * l * h * h *
        (1 + sequence / (6 * h) + v / (16 * l * h));
    return operations / gpus / 1e12 / row.at("hardware_tflops").get<double>();
  }
  return std::nullopt;
}

PublishedRow row_from(const Json& row, const Json& programs) {
  PublishedRow read{
      .table = row.at("table"),
      .name = row.at("name"),
      .cluster = find_cluster(row.at("cluster")),
      .program = row.at("program"),
      .layout = layout_from(row),
      .allocator = row.value("allocator", false),
      .largest = row.value("largest", false),
      .impossible = row.value("impossible", std::string()),
      .not_judged = row.value("not_judged", std::string()),
      .memory_judged = row.value("memory_judged", true),
      .fit = row.at("fit")};
  read.training.sequence = row.at("sequence");
  read.training.model =
      model_from(row.at("model"), read.training.sequence, read.layout.tensor);
  read.training.eight_bit = row.value("eight_bit", false);
  read.training.decoder_sequence =
      row.value("decoder_sequence", std::int64_t{0});
  read.training.program =
      program_from(programs.at(read.program), read.training.states);
  if (row.value("fp32", false)) {
    read.training.value_bytes = 4;
    read.training.states = {.parameter = 4, .gradient = 4, .master = 0};
  }
  read.iteration_seconds = seconds_of(row, read);
  constexpr double gibi = 1 << 30;
  if (row.contains("memory_gb")) {
    read.memory_bytes = 1e9 * row.at("memory_gb").get<double>();
  } else if (row.contains("memory_gib")) {
    read.memory_bytes = gibi * row.at("memory_gib").get<double>();
  }
  if (row.contains("host_gb")) {
    read.host_bytes = 1e9 * row.at("host_gb").get<double>();
  }
  return read;
}

std::string percent(double part) {
  return fmt::format("{:+.1f}%", 100 * part);
}

Estimate estimate_at(const PublishedRow& row, const RunLayout& layout) {
  return estimate(row.training, layout, row.cluster);
}

} // namespace

std::vector<PublishedRow> read_published(const std::filesystem::path& file) {
  try {
    const Json json = Json::parse(read_file(file, 1 << 22));
    std::vector<PublishedRow> rows;
    for (const Json& row : json.at("rows")) {
      rows.push_back(row_from(row, json.at("programs")));
    }
    return rows;
  } catch (const Json::exception& error) {
    throw DataError(
        {.what = "is not as plan_calibration expects it",
         .where = file.string(),
         .values = error.what()});
  }
}

std::string chip_of(const Gpu& gpu) {
  // A limit of its power makes another chip of it: "H100-96GB-500W".
  const auto memory = gpu.name.find("GB");
  return gpu.name.find('-') == std::string::npos ||
          memory == std::string::npos || memory + 2 != gpu.name.size()
      ? gpu.name
      : gpu.name.substr(0, gpu.name.find('-'));
}

double& fitted_share(Gpu& gpu) {
  return gpu.measured.products_16bit ? gpu.measured.sustained
                                     : gpu.matmul_share;
}

Prediction predict(
    const PublishedRow& row,
    const Constants& constants,
    const MatmulShares& shares) {
  Cluster cluster = row.cluster;
  if (const auto share = shares.find(chip_of(cluster.gpu));
      share != shares.end()) {
    fitted_share(cluster.gpu) = share->second;
  }
  Prediction result{
      .row = &row,
      .estimate = estimate_with(constants, row.training, row.layout, cluster)};
  if (row.iteration_seconds) {
    result.speed_error =
        *row.iteration_seconds / result.estimate.iteration_seconds - 1;
  }
  if (row.memory_bytes) {
    const MemoryParts& memory = result.estimate.memory;
    const double own = row.allocator ? memory.context : 0;
    result.memory_error = (memory.total() - own) / *row.memory_bytes - 1;
  }
  return result;
}

std::string markdown_of(const PublishedRow& row) {
  const Prediction each = predict(row);
  const double own = row.allocator ? each.estimate.memory.context : 0;
  return fmt::format(
      "| {} | {} | {} | {} | {:.3g} | {} | {} | {:.1f} | {} |",
      row.table,
      row.name,
      row.fit ? "yes" : "",
      row.iteration_seconds ? fmt::format("{:.3g}", *row.iteration_seconds)
                            : "",
      each.estimate.iteration_seconds,
      each.speed_error ? percent(*each.speed_error) : "",
      row.memory_bytes ? fmt::format("{:.1f}", *row.memory_bytes / 1e9) : "",
      (each.estimate.memory.total() - own) / 1e9,
      each.memory_error ? percent(*each.memory_error) : "");
}

std::int64_t smallest_tensor_that_fits(const PublishedRow& row) {
  for (std::int64_t tensor = 1; tensor <= row.layout.gpus; tensor *= 2) {
    RunLayout layout = row.layout;
    layout.tensor = tensor;
    layout.micro_batch = 1;
    layout.global_batch = layout.data();
    if (row.training.model.heads % tensor == 0 &&
        estimate_at(row, layout).fits) {
      return tensor;
    }
  }
  return 0;
}

double least_bytes(const PublishedRow& row) {
  const model::ModelDescription& d = row.training.model;
  const RunLayout& run = row.layout;
  const double held = static_cast<double>(model::count_parameters(d).all) /
      static_cast<double>(run.tensor * run.pipeline);
  const double owned =
      run.zero_stage >= 1 ? held / static_cast<double>(run.data()) : held;
  const double inputs = 2 *
      static_cast<double>(d.layers * d.hidden * row.training.sequence *
                          run.micro_batch);
  return 4 * held + 12 * owned + inputs;
}

std::int64_t largest_batch_that_fits(const PublishedRow& row) {
  std::int64_t largest = 0;
  RunLayout layout = row.layout;
  for (layout.micro_batch = 1; layout.micro_batch <= 1024;
       layout.micro_batch *= 2) {
    layout.global_batch = layout.micro_batch * layout.data();
    if (!estimate_at(row, layout).fits) {
      break;
    }
    largest = layout.global_batch;
  }
  return largest;
}

} // namespace cairn::plan
