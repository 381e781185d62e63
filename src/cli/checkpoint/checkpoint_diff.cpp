#include "base/internal/progress.h"
#include "checkpoints/internal/checkpoint_difference.h"
#include "cli/checkpoint/checkpoint_command.h"
#include "cli/program/command_line.h"
#include "cli/program/text_table.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <string>
#include <utility>

namespace cairn::cli {
namespace {

using checkpoints::CheckpointDifference;
using checkpoints::Facts;
using checkpoints::LazyTensor;
using checkpoints::TensorDifference;

// The exit codes of `diff`.
constexpr int exit_different = 1;
constexpr int exit_trouble = 2;

/// Both values if they differ ("F32 → BF16"), else the one that there is.
std::string shown_pair(
    const TensorDifference& difference,
    std::string (*shown)(const LazyTensor&)) {
  const std::string one = difference.one ? shown(*difference.one) : "";
  const std::string other = difference.other ? shown(*difference.other) : "";
  return one.empty() || other.empty() || one == other
      ? (one.empty() ? other : one)
      : fmt::format("{} → {}", one, other);
}

std::string type_of(const LazyTensor& tensor) {
  return shown_type(tensor.type);
}

std::string shape_of(const LazyTensor& tensor) {
  return shown_shape(tensor.shape);
}

std::string kind_of(const TensorDifference& difference) {
  if (!difference.other) {
    return "only in A";
  }
  if (!difference.one) {
    return "only in B";
  }
  if (difference.values) {
    return "values";
  }
  return difference.one->shape != difference.other->shape ? "shape" : "type";
}

void print_difference(const CheckpointDifference& difference) {
  using Align = TextTable::Align;
  if (!difference.tensors.empty()) {
    TextTable table(
        {{"tensor"},
         {"differs"},
         {"type"},
         {"shape"},
         {"elements", Align::right},
         {"largest", Align::right},
         {"relative", Align::right}});
    for (const TensorDifference& one : difference.tensors) {
      std::vector<std::string> cells{
          one.name,
          kind_of(one),
          shown_pair(one, type_of),
          shown_pair(one, shape_of)};
      if (one.values) {
        cells.push_back(fmt::to_string(one.values->differing));
        cells.push_back(fmt::format("{:.3g}", one.values->largest));
        cells.push_back(fmt::format("{:.3g}", one.values->relative));
      }
      table.add(cells);
    }
    fmt::print("{}", table.text(output_width()));
  }
  if (!difference.state.empty()) {
    TextTable table({{"state"}, {"A"}, {"B"}});
    const auto shown = [](const std::optional<Facts>& fact) {
      return fact ? fact->dump(-1, ' ', false, Facts::error_handler_t::replace)
                  : "";
    };
    for (const auto& one : difference.state) {
      table.add({one.name, shown(one.one), shown(one.other)});
    }
    fmt::print(
        "{}{}",
        difference.tensors.empty() ? "" : "\n",
        table.text(output_width()));
  }
}

Facts to_json(const CheckpointDifference& difference) {
  const auto described = [](const std::optional<LazyTensor>& tensor) {
    return tensor ? Facts{{"dtype", type_of(*tensor)}, {"shape", tensor->shape}}
                  : Facts();
  };
  Facts tensors = Facts::array();
  for (const TensorDifference& one : difference.tensors) {
    Facts entry{
        {"name", one.name},
        {"differs", kind_of(one)},
        {"a", described(one.one)},
        {"b", described(one.other)}};
    if (one.values) {
      entry["elements"] = one.values->elements;
      entry["differing"] = one.values->differing;
      entry["largest"] = one.values->largest;
      entry["relative"] = one.values->relative;
    }
    tensors.push_back(std::move(entry));
  }
  Facts state = Facts::array();
  for (const auto& one : difference.state) {
    state.push_back(
        {{"name", one.name},
         {"a", one.one.value_or(Facts())},
         {"b", one.other.value_or(Facts())}});
  }
  return {
      {"same", difference.same()},
      {"compared", difference.compared},
      {"tensors", std::move(tensors)},
      {"state", std::move(state)}};
}

struct Flags {
  std::string one;
  std::string other;
  std::string tag;
  std::string other_tag;
  bool json = false;
  checkpoints::CompareOptions options{};
};

int run(Flags& flags) {
  const auto [one, other] = checkpoints::comparable_views(
      flags.one,
      flags.other,
      flags.tag,
      flags.other_tag);
  Progress bar(
      {.label = "comparing",
       .total = checkpoints::bytes_of(one.weights) +
           (flags.options.weights_only ? 0 : checkpoints::bytes_of(one.states)),
       .unit = "B"});
  flags.options.advance = [&](std::uint64_t bytes) { bar.advance(bytes); };
  const CheckpointDifference difference = compare(one, other, flags.options);
  bar.done();
  if (flags.json) {
    print_json(to_json(difference));
    return difference.same() ? exit_ok : exit_different;
  }
  fmt::print(
      "A  {} ({})\nB  {} ({})\n\n",
      shown_text(one.place.string()),
      name_of(one.format),
      shown_text(other.place.string()),
      name_of(other.format));
  print_difference(difference);
  fmt::print(
      "{}{} tensors compared: {}\n",
      difference.same() ? "" : "\n",
      difference.compared,
      difference.same()
          ? "the same"
          : fmt::format(
                "{} differ or are in one only; {} differences of state",
                difference.tensors.size(),
                difference.state.size()));
  return difference.same() ? exit_ok : exit_different;
}

} // namespace

int run_checkpoint_diff(const Arguments& arguments) {
  CommandLine line(
      "cairn checkpoint diff A B [FLAGS…]",
      "cairn checkpoint diff run/checkpoints converted --tolerance 1e-6");
  Flags flags;
  CLI::App& app = line.app();
  app.description(
      "Compares two checkpoints, of any formats, tensor by tensor and by name. "
      "State\nand other tensors than weights are compared whole where both are "
      "of one format,\nelse what both have. Exit code 0: the same, 1: "
      "different, 2: trouble.");
  app.add_option("a", flags.one, "folder or file")->type_name("A")->required();
  app.add_option("b", flags.other, "folder or file")
      ->type_name("B")
      ->required();
  app.add_option("--tag", flags.tag, "which one of A, a run's folder");
  app.add_option("--other-tag", flags.other_tag, "which one of B");
  app.add_option(
         "--tolerance",
         flags.options.tolerance,
         "values that far apart count as the same")
      ->check(at_least(0))
      ->capture_default_str();
  app.add_flag(
      "--ignore-types",
      flags.options.ignore_types,
      "values count, not how they are stored");
  app.add_flag(
      "--weights-only",
      flags.options.weights_only,
      "neither state nor the optimizer's tensors");
  app.add_flag("--json", flags.json, "for programs");
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  try {
    return run(flags);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cairn: {}\n", error.what());
    return exit_trouble;
  }
}

} // namespace cairn::cli
