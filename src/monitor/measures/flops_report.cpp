#include "monitor/internal/module_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

namespace cairn::monitor {
namespace {

/// "3.14 G", with a unit behind: "3.14 GMACs".
std::string scaled(double value, std::string_view unit) {
  constexpr std::array<std::pair<double, std::string_view>, 5> prefixes{
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "K"}}};
  for (const auto& [size, prefix] : prefixes) {
    if (value >= size) {
      return fmt::format("{:.2f} {}{}", value / size, prefix, unit);
    }
  }
  return unit.empty() ? fmt::format("{:.0f}", value)
                      : fmt::format("{:.0f} {}", value, unit);
}

std::string shown_time(double seconds) {
  return seconds >= 1   ? fmt::format("{:.2f} s", seconds)
      : seconds >= 1e-3 ? fmt::format("{:.2f} ms", 1e3 * seconds)
                        : fmt::format("{:.2f} us", 1e6 * seconds);
}

std::string speed(double flops, double seconds) {
  return flops > 0 && seconds > 0 ? scaled(flops / seconds, "FLOPS") : "-";
}

double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

int depth_of(std::string_view module) {
  return module.empty() ? 0
                        : 1 + static_cast<int>(std::ranges::count(module, '.'));
}

std::string summary(
    const ModuleWork& model,
    const ProfiledStep& step,
    double recomputed) {
  std::string text;
  const auto row = [&](std::string_view what, const std::string& value) {
    fmt::format_to(std::back_inserter(text), "{:<62} {}\n", what, value);
  };
  const auto flops = static_cast<double>(model.forward_flops);
  const double factor = 2 + recomputed;
  const double both = step.forward_seconds + step.backward_seconds;
  const double iteration =
      static_cast<double>(step.passes) * both + step.update_seconds;
  row("world size:", fmt::format("{}", step.ranks));
  row("data parallel size:", fmt::format("{}", step.data_parallel));
  row("model parallel size:", fmt::format("{}", step.model_parallel));
  row("batch size per GPU:", fmt::format("{}", step.micro_batch));
  row("params of this rank:",
      scaled(static_cast<double>(model.parameters), ""));
  row("fwd MACs of this rank:",
      scaled(static_cast<double>(model.forward_macs), "MACs"));
  row("fwd flops of this rank:", scaled(flops, "FLOPs"));
  row("bwd flops of this rank, as counted:",
      scaled(static_cast<double>(model.backward_flops), "FLOPs"));
  row("fwd latency:", shown_time(step.forward_seconds));
  row("bwd latency:", shown_time(step.backward_seconds));
  row("fwd FLOPS = fwd flops / fwd latency:",
      speed(flops, step.forward_seconds));
  row(fmt::format("bwd FLOPS = {:g} * fwd flops / bwd latency:", factor),
      speed(factor * flops, step.backward_seconds));
  row(fmt::format(
          "fwd+bwd FLOPS = {:g} * fwd flops / (fwd+bwd latency):",
          factor + 1),
      speed((factor + 1) * flops, both));
  row("step latency:", shown_time(step.update_seconds));
  row(fmt::format("iter latency ({} x fwd and bwd, step):", step.passes),
      shown_time(iteration));
  row("samples/second:",
      iteration > 0
          ? fmt::format("{:.2f}", static_cast<double>(step.batch) / iteration)
          : "-");
  return text;
}

/// The first modules at a depth by some measure.
std::string first_by(
    const std::vector<const ModuleProfile::value_type*>& modules,
    std::size_t count,
    const std::function<double(const ModuleWork&)>& measure,
    const std::function<std::string(double)>& shown) {
  auto sorted = modules;
  std::ranges::stable_sort(sorted, [&](const auto* a, const auto* b) {
    return measure(a->second) > measure(b->second);
  });
  sorted.resize(std::min(sorted.size(), count));
  std::string text;
  for (const auto* each : sorted) {
    fmt::format_to(
        std::back_inserter(text),
        "{}'{}': '{}'",
        text.empty() ? "" : ", ",
        each->first.empty() ? "the model" : each->first,
        shown(measure(each->second)));
  }
  return "{" + text + "}";
}

std::string aggregated(
    const ModuleProfile& modules,
    int deepest,
    std::int64_t top) {
  std::string text;
  for (int depth = 0; depth <= deepest; ++depth) {
    std::vector<const ModuleProfile::value_type*> here;
    for (const auto& each : modules) {
      if (depth_of(each.first) == depth) {
        here.push_back(&each);
      }
    }
    const auto count = static_cast<std::size_t>(top);
    fmt::format_to(
        std::back_inserter(text),
        "depth {}:\n    params      - {}\n    MACs        - {}\n"
        "    fwd latency - {}\n",
        depth,
        first_by(
            here,
            count,
            [](const ModuleWork& w) {
              return static_cast<double>(w.parameters);
            },
            [](double value) { return scaled(value, ""); }),
        first_by(
            here,
            count,
            [](const ModuleWork& w) {
              return static_cast<double>(w.forward_macs);
            },
            [](double value) { return scaled(value, "MACs"); }),
        first_by(
            here,
            count,
            [](const ModuleWork& w) { return w.forward_seconds; },
            shown_time));
  }
  return text;
}

std::string detailed(const ModuleProfile& modules, int deepest) {
  const ModuleWork& model = modules.at("");
  std::size_t width = 9;
  for (const auto& [name, work] : modules) {
    width = std::max(width, name.size());
  }
  std::string text = fmt::format(
      "{:<{}} {:>10} {:>7} {:>13} {:>7} {:>13} {:>11} {:>7} {:>14} {:>13} "
      "{:>11}\n",
      "module",
      width,
      "params",
      "%",
      "fwd MACs",
      "%",
      "fwd FLOPs",
      "fwd time",
      "%",
      "fwd FLOPS",
      "bwd FLOPs",
      "bwd time");
  for (const auto& [name, work] : modules) {
    if (depth_of(name) > deepest) {
      continue;
    }
    const auto flops = static_cast<double>(work.forward_flops);
    fmt::format_to(
        std::back_inserter(text),
        "{:<{}} {:>10} {:>6.2f}% {:>13} {:>6.2f}% {:>13} {:>11} {:>6.2f}% "
        "{:>14} {:>13} {:>11}\n",
        name.empty() ? "the model" : name,
        width,
        scaled(static_cast<double>(work.parameters), ""),
        percent(
            static_cast<double>(work.parameters),
            static_cast<double>(model.parameters)),
        scaled(static_cast<double>(work.forward_macs), "MACs"),
        percent(
            static_cast<double>(work.forward_macs),
            static_cast<double>(model.forward_macs)),
        scaled(flops, "FLOPs"),
        shown_time(work.forward_seconds),
        percent(work.forward_seconds, model.forward_seconds),
        speed(flops, work.forward_seconds),
        scaled(static_cast<double>(work.backward_flops), "FLOPs"),
        shown_time(work.backward_seconds));
  }
  return text;
}

} // namespace

std::string flops_report(
    const ModuleProfile& modules,
    const ProfiledStep& step,
    const config::FlopsProfilerConfig& config) {
  int deepest = 0;
  for (const auto& [name, work] : modules) {
    deepest = std::max(deepest, depth_of(name));
  }
  if (config.module_depth >= 0) {
    deepest = std::min(deepest, static_cast<int>(config.module_depth));
  }
  std::string text = fmt::format(
      "-------------------------- Flops Profiler --------------------------\n"
      "Profile Summary at step {}:\n{}\n",
      step.step,
      summary(modules.at(""), step, config.recompute_fwd_factor));
  text +=
      "-------------------- Aggregated Profile of this rank "
      "--------------------\n"
      "Top modules in terms of params, MACs or fwd latency at different depths:"
      "\n";
  text += aggregated(modules, deepest, config.top_modules);
  if (config.detailed) {
    text += fmt::format(
        "\n-------------------- Detailed Profile of this rank "
        "--------------------"
        "\nOne pass of a micro batch; a module's row has what is within it "
        "too. "
        "Times are those of {}.\n",
        step.on_gpu ? "kernels on the GPU" : "operators on the CPU");
    text += detailed(modules, deepest);
  }
  return text;
}

} // namespace cairn::monitor
