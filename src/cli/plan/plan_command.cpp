// `cairn plan` and `cairn memory`: what a run will need, before it runs.

#include "cli/plan/plan_output.h"
#include "cli/plan/plan_request.h"
#include "cli/plan/plan_trace.h"
#include "cli/plan/scaling_chart.h"
#include "cli/program/text_table.h"
#include "plan/internal/stage_choices.h"

#include <cairn/base/file.h>
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

using plan::Estimate;

std::string table_of(
    const std::vector<Estimate>& layouts,
    const PlanRequest& request) {
  using Align = TextTable::Align;
  std::vector<TextTable::Column> columns{
      {layouts.size() > 1 ? "    layout" : "layout", Align::left},
      {"iteration", Align::right},
      {"tokens/s/GPU", Align::right},
      {"MFU", Align::right},
      {"memory", Align::right},
      {"limited by", Align::left}};
  if (request.tokens) {
    columns.push_back({"days", Align::right});
    columns.push_back({"GPU hours", Align::right});
  }
  TextTable table(columns);
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const Estimate& each = layouts[i];
    std::vector<std::string> cells{
        layouts.size() > 1
            ? fmt::format("{:>2}. {}", i + 1, shown_layout(each.layout))
            : shown_layout(each.layout),
        shown_seconds(each.iteration_seconds),
        fmt::format("{:.0f}", each.tokens_per_second_per_gpu),
        fmt::format("{:.1f}%", 100 * each.mfu),
        shown_gigabytes(each.memory.total()),
        each.limited_by};
    if (request.tokens) {
      const double days = run_days(each, request, *request.tokens);
      cells.push_back(fmt::format("{:.3g}", days));
      cells.push_back(fmt::format(
          "{:.4g}",
          days * 24 * static_cast<double>(each.layout.gpus)));
    }
    table.add(cells);
  }
  return table.text(output_width());
}

void print_parts(
    const char* title,
    const std::vector<std::pair<std::string, double>>& parts,
    double total,
    std::string (*shown)(double)) {
  fmt::print("\n{}\n", title);
  for (const auto& [name, value] : parts) {
    if (value > 0) {
      std::string words = name;
      std::ranges::replace(words, '_', ' ');
      fmt::print(
          "  {:<20} {:>10}  {:>5.1f}%\n",
          words,
          shown(value),
          100 * value / total);
    }
  }
  fmt::print("  {:<20} {:>10}\n", "total", shown(total));
}

void print_memory(const Estimate& each, const PlanRequest& request) {
  print_parts(
      each.layout.pipeline > 1
          ? fmt::format(
                "memory of a GPU, on stage {}, which has the most",
                each.heaviest_stage)
                .c_str()
          : "memory of a GPU",
      plan::parts_of(each.memory),
      each.memory.total(),
      shown_gigabytes);
  if (each.host_bytes > 0) {
    fmt::print(
        "  of a host            {:>10}\n",
        shown_gigabytes(each.host_bytes));
  }
  if (each.nvme_bytes > 0) {
    fmt::print(
        "  on NVMe of a node    {:>10}\n",
        shown_gigabytes(each.nvme_bytes));
  }
  if (each.fits) {
    fmt::print(
        "It fits: a {} has {}.{}\n",
        request.cluster.gpu.name,
        shown_gigabytes(request.cluster.gpu.memory_bytes),
        request.cluster.gpu.is_cpu
            ? ""
            : " nvidia-smi shows some GB more, which libtorch's allocator\n"
              "keeps until memory is short.");
    return;
  }
  fmt::print("It does not fit: {}.\n", each.lacks);
  const auto remedy =
      cheapest_remedy(request.training, each.layout, request.cluster);
  if (remedy) {
    fmt::print(
        "The cheapest change that makes it fit: {} ({} an iteration, {}).\n",
        remedy->change,
        shown_seconds(remedy->estimate.iteration_seconds),
        shown_gigabytes(remedy->estimate.memory.total()));
  } else {
    fmt::print("No single change makes it fit: `cairn plan` without "
               "--micro-batch-size searches for a layout.\n");
  }
}

void print_goodput(const Estimate& each, const PlanRequest& request) {
  if (!request.asks_goodput) {
    return;
  }
  const plan::Goodput goodput = goodput_of(each, request);
  fmt::print(
      "\nfailures and checkpoints leave {:.1f}% of the time\n"
      "  a checkpoint of {} every {} iterations ({}): training waits {}, and "
      "it is written in {}\n",
      100 * goodput.share,
      shown_gigabytes(goodput.checkpoint_bytes),
      goodput.interval,
      shown_seconds(
          static_cast<double>(goodput.interval) * each.iteration_seconds),
      shown_seconds(goodput.stall_seconds),
      shown_seconds(goodput.write_seconds));
  if (goodput.failure_seconds > 0) {
    fmt::print(
        "  a failure every {:.3g} hours, which costs {:.3g} minutes\n",
        goodput.failure_seconds / 3600,
        goodput.lost_seconds / 60);
  }
}

void print_run_length(const PlanRequest& request) {
  if (request.tokens) {
    fmt::print(
        "days and GPU hours of {} tokens{}\n",
        *request.tokens >= 1e9
            ? fmt::format("{:.4g} billion", *request.tokens / 1e9)
            : fmt::format("{:.0f}", *request.tokens),
        request.tokens_by_size ? ", 20 a parameter" : "");
  }
}

void print_one(const Estimate& each, const PlanRequest& request) {
  fmt::print(
      "{:.4g} billion parameters on {} GPUs of {}: {}\n\n",
      each.parameters / 1e9,
      request.gpus,
      request.cluster.name,
      shown_layout(each.layout));
  fmt::print("{}", table_of({each}, request));
  print_run_length(request);
  fmt::print(
      "{:.1f} TFLOP/s of the model, {:.1f} TFLOP/s with what is computed "
      "again (attention counted without a mask)\n",
      each.model_tflops_per_gpu,
      each.hardware_tflops_per_gpu);
  print_parts(
      "time of an iteration, on the stage that works longest",
      plan::parts_of(each.time),
      each.time.total(),
      shown_seconds);
  print_goodput(each, request);
  print_memory(each, request);
}

/// The layouts that do not fit but come nearest to it, and why.
void print_nearest(const plan::SearchResult& found) {
  if (found.nearest.empty()) {
    return;
  }
  fmt::print("\nof those that do not fit, the nearest:\n");
  for (const Estimate& each : found.nearest) {
    fmt::print("  {}: {}\n", shown_layout(each.layout), each.lacks);
  }
}

/// Memory by component, a column for each layout.
void print_memory_table(const std::vector<Estimate>& layouts) {
  if (layouts.size() < 2) {
    return;
  }
  constexpr std::size_t columns = 10;
  for (std::size_t first = 0; first < layouts.size(); first += columns) {
    const std::size_t end = std::min(first + columns, layouts.size());
    std::vector<TextTable::Column> titles{
        {"memory of a GPU, GB", TextTable::Align::left}};
    for (std::size_t i = first; i < end; ++i) {
      titles.push_back({fmt::format("{}.", i + 1), TextTable::Align::right});
    }
    TextTable table(titles);
    const auto names = plan::parts_of(layouts[first].memory);
    for (std::size_t part = 0; part <= names.size(); ++part) {
      const bool total = part == names.size();
      std::string name = total ? "total" : names[part].first;
      std::ranges::replace(name, '_', ' ');
      std::vector<std::string> cells{name};
      double sum = 0;
      for (std::size_t i = first; i < end; ++i) {
        const plan::MemoryParts& memory = layouts[i].memory;
        const double bytes =
            total ? memory.total() : plan::parts_of(memory)[part].second;
        sum += bytes;
        cells.push_back(bytes > 0 ? fmt::format("{:.1f}", bytes / 1e9) : "");
      }
      if (sum > 0) {
        table.add(cells);
      }
    }
    fmt::print("\n{}", table.text(output_width()));
  }
}

void print_search(const plan::SearchResult& found, const PlanRequest& request) {
  fmt::print(
      "{} layouts of {} GPUs of {} tried; {} do not fit\n\n",
      found.tried,
      request.gpus,
      request.cluster.name,
      found.too_large);
  if (found.layouts.empty()) {
    fmt::print("No layout fits.\n");
    print_nearest(found);
    const auto remedy =
        cheapest_remedy(request.training, request.cluster, request.search);
    if (remedy) {
      fmt::print(
          "The cheapest change that makes it fit: {} ({}, {} an iteration, "
          "{}).\n",
          remedy->change,
          shown_layout(remedy->estimate.layout),
          shown_seconds(remedy->estimate.iteration_seconds),
          shown_gigabytes(remedy->estimate.memory.total()));
    } else {
      fmt::print("No single change makes it fit, nor do more GPUs of this "
                 "cluster: plan for a larger one, or a smaller model.\n");
    }
    return;
  }
  fmt::print("{}", table_of(found.layouts, request));
  print_run_length(request);
  print_nearest(found);
  print_memory_table(found.layouts);
  print_goodput(found.layouts.front(), request);
  print_memory(found.layouts.front(), request);
  fmt::print(
      "flags of the best: {}\n",
      fmt::join(layout_flags(found.layouts.front().layout), " "));
}

std::string shown_parameters(double count) {
  return count >= 1e12 ? fmt::format("{:.3g}T", count / 1e12)
      : count > 0      ? fmt::format("{:.3g}B", count / 1e9)
                       : "-";
}

/// The trade of memory for time that ZeRO's stages offer.
void print_stages(const Estimate& best, const PlanRequest& request) {
  using Align = TextTable::Align;
  TextTable table(
      {{"states", Align::left},
       {"memory", Align::right},
       {"activations", Align::right},
       {"fits", Align::left},
       {"iteration", Align::right},
       {"messages and copies", Align::right},
       {"largest model that fits", Align::right}});
  for (const plan::StageChoice& each :
       plan::stage_choices(request.training, best.layout, request.cluster)) {
    const auto cell = [&](const std::string& text) {
      return each.estimate ? text : std::string("-");
    };
    const Estimate estimate = each.estimate.value_or(Estimate{});
    const plan::TimeParts& time = estimate.time;
    table.add(
        {each.name,
         cell(shown_gigabytes(estimate.memory.total())),
         cell(shown_gigabytes(
             estimate.memory.activations + estimate.memory.working +
             estimate.memory.logits)),
         cell(estimate.fits ? "yes" : "no"),
         cell(shown_seconds(estimate.iteration_seconds)),
         cell(shown_seconds(time.gathers + time.gradients + time.offload)),
         shown_parameters(each.largest)});
  }
  fmt::print("\n{}", table.text(output_width()));
}

/// The best layout again, with its passes.
Estimate with_timeline(const Estimate& best, const PlanRequest& request) {
  plan::EstimateOptions options = request.options;
  options.timeline = true;
  return plan::estimate(
      request.training,
      best.layout,
      request.cluster,
      options);
}

/// The layouts that a search has found, as they are with a slow GPU.
void slow_down(std::vector<Estimate>& layouts, const PlanRequest& request) {
  if (request.options.straggler == 1) {
    return;
  }
  for (Estimate& each : layouts) {
    each = plan::estimate(
        request.training,
        each.layout,
        request.cluster,
        request.options);
  }
  std::ranges::stable_sort(layouts, {}, &Estimate::iteration_seconds);
}

void write_files(
    std::vector<Estimate> layouts,
    const std::vector<Estimate>& nearest,
    const PlanRequest& request) {
  if (layouts.empty()) {
    return;
  }
  if (request.page || request.trace) {
    layouts.front() = with_timeline(layouts.front(), request);
  }
  if (request.page) {
    write_file_atomically(*request.page, plan_page(layouts, nearest, request));
    fmt::print(stderr, "{}: the page\n", *request.page);
  }
  if (request.trace) {
    write_file_atomically(*request.trace, plan_trace(layouts.front()));
    fmt::print(stderr, "{}: open it in ui.perfetto.dev\n", *request.trace);
  }
  if (request.curves) {
    const auto points = plan::scaling(
        request.training,
        layouts.front().layout,
        request.cluster,
        request.most_gpus,
        request.options);
    write_file_atomically(*request.curves, scaling_chart(points, request));
    if (!request.json) {
      fmt::print("\n{}", scaling_table(points, request));
    }
    fmt::print(stderr, "{}: the curves\n", *request.curves);
  }
  if (request.stages && !request.json) {
    print_stages(layouts.front(), request);
  }
  if (request.folder) {
    write_plan(*request.folder, layouts.front(), request);
    fmt::print(stderr, "{}: ds.json, flags, launch.sh\n", *request.folder);
  }
}

} // namespace

int run_plan(const Arguments& arguments) {
  const auto request = plan_request("plan", arguments);
  if (!request) {
    return exit_ok;
  }
  std::vector<Estimate> layouts;
  std::vector<Estimate> nearest;
  if (request->layout) {
    layouts.push_back(plan::estimate(
        request->training,
        *request->layout,
        request->cluster,
        request->options));
    if (!request->json) {
      print_one(layouts.front(), *request);
    }
  } else {
    plan::SearchResult found =
        plan::search(request->training, request->cluster, request->search);
    slow_down(found.layouts, *request);
    layouts = found.layouts;
    nearest = found.nearest;
    if (!request->json) {
      print_search(found, *request);
    } else if (layouts.empty()) {
      layouts = found.nearest;
    }
  }
  if (request->json) {
    fmt::print("{}", plan_json(layouts, *request));
  }
  write_files(layouts, nearest, *request);
  const bool fits = !layouts.empty() && layouts.front().fits;
  return fits ? exit_ok : exit_failure;
}

int run_memory(const Arguments& arguments) {
  const auto request = plan_request("memory", arguments);
  if (!request) {
    return exit_ok;
  }
  const Estimate each =
      plan::estimate(request->training, *request->layout, request->cluster);
  if (request->json) {
    fmt::print("{}", plan_json({each}, *request));
  } else {
    fmt::print(
        "{:.4g} billion parameters on {} GPUs: {}\n",
        each.parameters / 1e9,
        request->gpus,
        shown_layout(each.layout));
    print_memory(each, *request);
  }
  return exit_ok;
}

} // namespace cairn::cli
