#include "cli/plan/plan_output.h"

#include "base/internal/markup_escaped.h"
#include "launch/internal/shell_quote.h"

#include <cairn/base/file.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace cairn::cli {
namespace {

using Json = nlohmann::ordered_json;
using plan::Estimate;
using plan::RunLayout;

std::string_view name_of(plan::Place place) {
  switch (place) {
    case plan::Place::cpu:
      return "cpu";
    case plan::Place::nvme:
      return "nvme";
    case plan::Place::device:
      break;
  }
  return "none";
}

Json json_of(const Estimate& each, const PlanRequest& request) {
  Json json;
  const RunLayout& run = each.layout;
  json["flags"] = fmt::format("{}", fmt::join(layout_flags(run), " "));
  json["gpus"] = run.gpus;
  json["tensor"] = run.tensor;
  json["pipeline"] = run.pipeline;
  json["schedule"] = run.schedule;
  json["virtual_stages"] = run.chunks;
  json["data"] = run.data();
  json["context"] = run.context;
  json["expert"] = run.expert;
  json["zero_stage"] = run.zero_stage;
  json["micro_batch"] = run.micro_batch;
  json["global_batch"] = run.global_batch;
  json["recompute"] = run.recompute == plan::Recompute::blocks ? "full"
      : run.recompute == plan::Recompute::scores               ? "selective"
                                                               : "none";
  json["offload_optimizer"] = name_of(run.optimizer);
  if (run.optimizer != plan::Place::device) {
    json["offload_ratio"] = run.offloaded;
    json["offload_update_on"] = run.update_on_gpu ? "gpu" : "cpu";
  }
  json["offload_param"] = name_of(run.parameters);
  json["parameters"] = each.parameters;
  json["iteration_seconds"] = each.iteration_seconds;
  json["tokens_per_second_per_gpu"] = each.tokens_per_second_per_gpu;
  json["model_tflops_per_gpu"] = each.model_tflops_per_gpu;
  json["hardware_tflops_per_gpu"] = each.hardware_tflops_per_gpu;
  json["mfu"] = each.mfu;
  Json memory;
  for (const auto& [name, bytes] : plan::parts_of(each.memory)) {
    memory[name] = bytes;
  }
  memory["total"] = each.memory.total();
  json["memory_bytes_per_rank"] = memory;
  json["host_bytes_per_node"] = each.host_bytes;
  json["nvme_bytes_per_node"] = each.nvme_bytes;
  json["fits"] = each.fits;
  json["lacks"] = each.lacks;
  Json time;
  for (const auto& [name, seconds] : plan::parts_of(each.time)) {
    time[name] = seconds;
  }
  json["seconds"] = time;
  json["limited_by"] = each.limited_by;
  if (request.asks_goodput) {
    const plan::Goodput goodput = goodput_of(each, request);
    json["goodput"] = {
        {"share", goodput.share},
        {"seconds_between_failures", goodput.failure_seconds},
        {"lost_seconds_of_a_failure", goodput.lost_seconds},
        {"checkpoint_bytes", goodput.checkpoint_bytes},
        {"checkpoint_interval", goodput.interval},
        {"checkpoint_stall_seconds", goodput.stall_seconds},
        {"checkpoint_write_seconds", goodput.write_seconds}};
  }
  if (request.tokens) {
    const double days = run_days(each, request, *request.tokens);
    json["run_tokens"] = *request.tokens;
    json["run_days"] = days;
    json["run_gpu_hours"] = days * 24 * static_cast<double>(run.gpus);
  }
  return json;
}

constexpr std::array<std::string_view, 13> colours{
    "#4e79a7",
    "#f28e2b",
    "#e15759",
    "#76b7b2",
    "#59a14f",
    "#edc948",
    "#b07aa1",
    "#ff9da7",
    "#9c755f",
    "#bab0ac",
    "#2f4b7c",
    "#a05195",
    "#d45087"};

/// A horizontal bar of parts, as wide as their sum is of `scale`, on a ground
/// as wide as the `room` for it.
std::string bar(
    const std::vector<std::pair<std::string, double>>& parts,
    double scale,
    double room,
    std::string (*shown)(double)) {
  constexpr double width = 720;
  std::string svg =
      fmt::format("<svg width=\"{}\" height=\"26\" role=\"img\">", width);
  if (room > 0) {
    svg += fmt::format(
        "<rect x=\"0\" y=\"3\" width=\"{:.1f}\" height=\"20\" "
        "fill=\"#eee\"><title>there is: {}</title></rect>",
        room / scale * width,
        shown(room));
  }
  double x = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double size = parts[i].second / scale * width;
    if (size < 0.3) {
      continue;
    }
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"3\" width=\"{:.1f}\" height=\"20\" "
        "fill=\"{}\"><title>{}: {}</title></rect>",
        x,
        size,
        colours[i % colours.size()],
        parts[i].first,
        shown(parts[i].second));
    x += size;
  }
  return svg + "</svg>";
}

std::string legend(const std::vector<std::pair<std::string, double>>& parts) {
  std::string html = "<p class=legend>";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::string name = parts[i].first;
    std::ranges::replace(name, '_', ' ');
    html += fmt::format(
        "<span><i style=\"background:{}\"></i>{}</span> ",
        colours[i % colours.size()],
        name);
  }
  return html + "</p>";
}

/// The word as a file of flags has it.
std::string flag_file_word(const std::string& word) {
  if (word.find_first_of(" \t#'\"") == std::string::npos) {
    return word;
  }
  const char quote = word.find('\'') == std::string::npos ? '\'' : '"';
  return quote + word + quote;
}

std::string timeline_svg(const Estimate& each) {
  constexpr double left = 64;
  constexpr double width = 1100;
  constexpr double row = 18;
  // A page stays small: of long iterations the first passes are drawn.
  constexpr std::size_t most_passes = 6000;
  std::size_t passes = 0;
  double length = 0;
  for (const auto& stage : each.timeline) {
    passes += stage.size();
    for (const plan::TimedPass& pass : stage) {
      length = std::max(length, pass.end);
    }
  }
  if (passes == 0 || length <= 0) {
    return "";
  }
  const double shown = passes > most_passes
      ? length * static_cast<double>(most_passes) / static_cast<double>(passes)
      : length;
  std::string svg = fmt::format(
      "<h2>Timeline of one iteration</h2><p>{} of {}; blue is forward, green "
      "backward, orange the gradients of weights.</p>"
      "<svg width=\"{}\" height=\"{}\" font-size=\"10\">",
      shown_seconds(shown),
      shown_seconds(length),
      left + width,
      row * static_cast<double>(each.timeline.size()) + 4);
  for (std::size_t stage = 0; stage < each.timeline.size(); ++stage) {
    const double y = row * static_cast<double>(stage);
    svg += fmt::format(
        "<text x=\"0\" y=\"{:.0f}\">stage {}</text>",
        y + 12,
        stage);
    for (const plan::TimedPass& pass : each.timeline[stage]) {
      if (pass.begin > shown) {
        break;
      }
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"15\" "
          "fill=\"{}\"><title>{}{}</title></rect>",
          left + pass.begin / shown * width,
          y,
          std::max(
              0.2,
              (std::min(pass.end, shown) - pass.begin) / shown * width - 0.4),
          pass.kind == 'F'       ? "#7db3e8"
              : pass.kind == 'B' ? "#7fc495"
                                 : "#f2b872",
          pass.kind,
          pass.micro_batch);
    }
  }
  return svg + "</svg>";
}

} // namespace

std::string shown_seconds(double seconds) {
  return seconds >= 1   ? fmt::format("{:.3g} s", seconds)
      : seconds >= 1e-3 ? fmt::format("{:.3g} ms", seconds * 1e3)
                        : fmt::format("{:.3g} us", seconds * 1e6);
}

std::string shown_gigabytes(double bytes) {
  return fmt::format("{:.1f} GB", bytes / 1e9);
}

std::string shown_layout(const RunLayout& run) {
  std::string text =
      fmt::format("TP {} PP {} DP {}", run.tensor, run.pipeline, run.data());
  if (run.context > 1) {
    text += fmt::format(" CP {}", run.context);
  }
  if (run.expert > 1) {
    text += fmt::format(" EP {}", run.expert);
  }
  if (run.pipeline > 1) {
    text += " " + run.schedule +
        (run.chunks > 1 ? fmt::format(" x{}", run.chunks) : "");
  }
  text +=
      fmt::format(", ZeRO {}, micro batch {}", run.zero_stage, run.micro_batch);
  if (run.recompute == plan::Recompute::blocks) {
    text += run.recomputed_blocks > 0
        ? fmt::format(", recompute {} blocks", run.recomputed_blocks)
        : ", recompute";
  }
  if (run.optimizer != plan::Place::device) {
    text += run.offloaded < 1
        ? fmt::format(
              ", {:.0f}% of the optimizer on {}",
              100 * run.offloaded,
              name_of(run.optimizer))
        : fmt::format(", optimizer on {}", name_of(run.optimizer));
    text += run.update_on_gpu ? ", updated on the GPU" : "";
  }
  if (run.parameters != plan::Place::device) {
    text += fmt::format(", parameters on {}", name_of(run.parameters));
  }
  return text;
}

plan::Goodput goodput_of(const Estimate& each, const PlanRequest& request) {
  return request.asks_goodput ? plan::goodput_of(
                                    request.training,
                                    each,
                                    request.cluster,
                                    request.reliability)
                              : plan::Goodput{};
}

double run_days(
    const Estimate& each,
    const PlanRequest& request,
    double tokens) {
  const double speed = each.tokens_per_second_per_gpu *
      static_cast<double>(each.layout.gpus) * goodput_of(each, request).share;
  return tokens / speed / 86400;
}

std::string plan_json(
    const std::vector<Estimate>& layouts,
    const PlanRequest& request) {
  Json all = Json::array();
  for (const Estimate& each : layouts) {
    all.push_back(json_of(each, request));
  }
  return all.dump(2) + "\n";
}

std::string plan_page(
    const std::vector<Estimate>& layouts,
    const std::vector<Estimate>& nearest,
    const PlanRequest& request) {
  double slowest = 0;
  double largest = request.cluster.gpu.memory_bytes;
  for (const Estimate& each : layouts) {
    slowest = std::max(slowest, each.time.total());
    largest = std::max(largest, each.memory.total());
  }
  std::string html = fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><title>cairn "
      "plan</title>"
      "<style>body{{font:14px sans-serif;margin:2em;color:#222}}"
      "td,th{{padding:2px 12px 2px 0;text-align:left;vertical-align:middle}}"
      ".legend span{{margin-right:1em}}.legend i{{display:inline-block;"
      "width:12px;height:12px;margin-right:4px}}</style>"
      "<div id=\"page\"><h1>cairn plan</h1><p>{:.4g} billion parameters, "
      "samples of {} tokens, "
      "batch {}, on {} GPUs of {}.</p>",
      layouts.empty() ? 0 : layouts.front().parameters / 1e9,
      request.training.sequence,
      layouts.empty() ? 0 : layouts.front().layout.global_batch,
      request.gpus,
      markup_escaped(request.cluster.name));
  if (layouts.empty()) {
    return html + "<p>No layout fits.</p></div></html>\n";
  }
  html += "<h2>Seconds of an iteration</h2>" +
      legend(plan::parts_of(layouts.front().time)) + "<table>";
  for (const Estimate& each : layouts) {
    html += fmt::format(
        "<tr><td>{}<td>{}<td>{:.1f}% MFU<td>{}</tr>",
        markup_escaped(shown_layout(each.layout)),
        shown_seconds(each.iteration_seconds),
        100 * each.mfu,
        bar(plan::parts_of(each.time), slowest, 0, shown_seconds));
  }
  html += "</table><h2>Memory of a GPU</h2>" +
      legend(plan::parts_of(layouts.front().memory)) + "<table>";
  for (const Estimate& each : layouts) {
    html += fmt::format(
        "<tr><td>{}<td>{}<td>{}<td>{}</tr>",
        markup_escaped(shown_layout(each.layout)),
        shown_gigabytes(each.memory.total()),
        each.fits ? "fits" : markup_escaped(each.lacks),
        bar(plan::parts_of(each.memory),
            largest,
            request.cluster.gpu.memory_bytes,
            shown_gigabytes));
  }
  html += "</table>";
  if (!nearest.empty()) {
    html += "<h2>What does not fit</h2><table>";
    for (const Estimate& each : nearest) {
      html += fmt::format(
          "<tr><td>{}<td>{}<td>{}</tr>",
          markup_escaped(shown_layout(each.layout)),
          shown_gigabytes(each.memory.total()),
          markup_escaped(each.lacks));
    }
    html += "</table>";
  }
  return html + timeline_svg(layouts.front()) + "</div></html>\n";
}

void write_plan(
    const std::filesystem::path& folder,
    const Estimate& estimate,
    const PlanRequest& request) {
  const RunLayout& run = estimate.layout;
  std::filesystem::create_directories(folder);
  Json json = Json::parse(request.deepspeed);
  json.erase("gradient_accumulation_steps");
  json["train_batch_size"] = run.global_batch;
  json["train_micro_batch_size_per_gpu"] = run.micro_batch;
  Json& zero = json["zero_optimization"];
  zero["stage"] = run.zero_stage;
  zero.erase("cpu_offload"); // old names of what follows
  zero.erase("cpu_offload_param");
  for (const auto& [key, place] :
       {std::pair{"offload_optimizer", run.optimizer},
        std::pair{"offload_param", run.parameters}}) {
    if (place == plan::Place::device) {
      zero.erase(key);
      continue;
    }
    zero[key]["device"] = name_of(place);
    if (key == std::string_view("offload_optimizer") && !request.layout) {
      zero[key]["ratio"] = run.offloaded;
      zero[key]["update_on"] = run.update_on_gpu ? "gpu" : "cpu";
    }
    if (place == plan::Place::nvme && !zero[key].contains("nvme_path")) {
      zero[key]["nvme_path"] = "/local_nvme";
    }
  }
  write_file_atomically(folder / "ds.json", json.dump(2) + "\n");
  std::string flags = fmt::format("# {}\n", shown_layout(run));
  std::string line;
  std::vector<std::string> words = pretrain_flags(request, run);
  words.emplace_back("--deepspeed_config");
  words.push_back((folder / "ds.json").string());
  for (const std::string& word : words) {
    if (word.starts_with("--") && !line.empty()) {
      flags += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + flag_file_word(word);
  }
  write_file_atomically(folder / "flags", flags + line + "\n");
  const std::int64_t node = std::min(run.gpus, request.cluster.gpus_per_node);
  const std::int64_t nodes = run.gpus / node;
  write_file_atomically(
      folder / "launch.sh",
      fmt::format(
          "#!/usr/bin/env bash\n# {}\n{}exec cairn launch {}--num_gpus {} "
          "pretrain {} {} \"$@\"\n",
          shown_layout(run),
          nodes > 1 ? "# HOSTFILE has a line `HOST slots=N` for each node.\n"
                    : "",
          nodes > 1 ? fmt::format(
                          "--hostfile \"${{HOSTFILE:-hosts}}\" --num_nodes {} ",
                          nodes)
                    : "",
          node,
          model::name_of(request.kind),
          launch::shell_quote("@" + (folder / "flags").string())));
  std::filesystem::permissions(
      folder / "launch.sh",
      std::filesystem::perms::owner_exec,
      std::filesystem::perm_options::add);
}

} // namespace cairn::cli
