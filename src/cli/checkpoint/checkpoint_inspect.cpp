#include "base/internal/progress.h"
#include "checkpoints/internal/checkpoint_view.h"
#include "checkpoints/internal/tensor_summary.h"
#include "cli/checkpoint/checkpoint_command.h"
#include "cli/program/byte_size.h"
#include "cli/program/command_line.h"
#include "cli/program/text_table.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

using checkpoints::CheckpointView;
using checkpoints::Facts;
using checkpoints::LazyTensor;
using checkpoints::NamedTensors;
using checkpoints::TensorSummary;

struct ShownTensor {
  std::string name;
  LazyTensor tensor;
  std::optional<std::size_t> slices; ///< only native checkpoints have slices
  std::optional<TensorSummary> summary;
};

NamedTensors matching(const NamedTensors& tensors, const std::string& pattern) {
  NamedTensors result = tensors;
  std::erase_if(result, [&](const auto& named) {
    return !pattern.empty() &&
        ::fnmatch(pattern.c_str(), named.first.c_str(), 0) != 0;
  });
  return result;
}

std::vector<ShownTensor> shown_tensors(
    const CheckpointView& view,
    const NamedTensors& tensors,
    Progress* bar) {
  std::vector<ShownTensor> result;
  for (const auto& [name, tensor] : tensors) {
    ShownTensor shown{.name = name, .tensor = tensor};
    if (const auto found = view.slices.find(name); found != view.slices.end()) {
      shown.slices = found->second;
    }
    if (bar != nullptr) {
      shown.summary = checkpoints::summarize(tensor.load());
      bar->advance(checkpoints::bytes_of(tensor));
    }
    result.push_back(std::move(shown));
  }
  return result;
}

std::string fault(const TensorSummary& summary) {
  std::string text;
  if (summary.nans > 0) {
    text = fmt::format("{} nan", summary.nans);
  }
  if (summary.infinities > 0) {
    text +=
        fmt::format("{}{} inf", text.empty() ? "" : ", ", summary.infinities);
  }
  return text;
}

/// Columns that a table of tensors has where some tensor fills them.
struct TensorColumns {
  explicit TensorColumns(const std::vector<ShownTensor>& tensors) {
    for (const ShownTensor& one : tensors) {
      sliced = sliced || one.slices;
      summaries = summaries || one.summary;
      faults = faults || (one.summary && !one.summary->finite());
    }
  }

  bool sliced = false;
  bool summaries = false;
  bool faults = false;
};

std::vector<TextTable::Column> heads_of(const TensorColumns& shown) {
  using Align = TextTable::Align;
  std::vector<TextTable::Column> columns{
      {"name"},
      {"type"},
      {"shape"},
      {"size", Align::right}};
  if (shown.sliced) {
    columns.push_back({"slices", Align::right});
  }
  if (shown.summaries) {
    columns.push_back({"norm", Align::right});
    columns.push_back({"min", Align::right});
    columns.push_back({"max", Align::right});
  }
  if (shown.faults) {
    columns.push_back({"WARNING"});
  }
  return columns;
}

std::vector<std::string> cells_of(
    const ShownTensor& one,
    const TensorColumns& shown) {
  std::vector<std::string> cells{
      one.name,
      shown_type(one.tensor.type),
      shown_shape(one.tensor.shape),
      shown_byte_size(checkpoints::bytes_of(one.tensor))};
  if (shown.sliced) {
    cells.push_back(one.slices ? fmt::to_string(*one.slices) : "");
  }
  if (one.summary) {
    cells.push_back(fmt::format("{:.5g}", one.summary->norm));
    cells.push_back(fmt::format("{:.4g}", one.summary->least));
    cells.push_back(fmt::format("{:.4g}", one.summary->most));
    if (shown.faults) {
      cells.push_back(fault(*one.summary));
    }
  }
  return cells;
}

void print_tensors(
    std::string_view title,
    const std::vector<ShownTensor>& tensors,
    const NamedTensors& all) {
  if (tensors.empty()) {
    return;
  }
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
  for (const ShownTensor& one : tensors) {
    const std::uint64_t own = checkpoints::bytes_of(one.tensor);
    bytes += own;
    elements +=
        static_cast<std::int64_t>(own / c10::elementSize(one.tensor.type));
  }
  fmt::print(
      "\n{}: {}{} tensors, {} elements, {}\n",
      title,
      tensors.size(),
      tensors.size() == all.size() ? "" : fmt::format(" of {}", all.size()),
      elements,
      shown_byte_size(bytes));
  const TensorColumns shown(tensors);
  TextTable table(heads_of(shown));
  for (const ShownTensor& one : tensors) {
    table.add(cells_of(one, shown));
  }
  fmt::print("{}", table.text(output_width()));
}

/// Prints one line for each, cut off where it gets long.
void print_facts(std::string_view title, const Facts& facts) {
  if (facts.empty()) {
    return;
  }
  std::size_t width = 12;
  for (const auto& [key, value] : facts.items()) {
    width = std::max(width, std::min<std::size_t>(key.size(), 30));
  }
  const std::size_t most = 95 - width;
  fmt::print("\n{}\n", title);
  for (const auto& [key, value] : facts.items()) {
    std::string text = shown_text(
        value.is_string()
            ? value.get<std::string>()
            : value.dump(-1, ' ', false, Facts::error_handler_t::replace));
    if (text.size() > most) {
      std::size_t end = most;
      while (end > 0 &&
             (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
        --end;
      }
      text = text.substr(0, end) + "…";
    }
    fmt::print("  {:<{}}  {}\n", shown_text(key), width, text);
  }
}

Facts to_json(const std::vector<ShownTensor>& tensors) {
  Facts all = Facts::array();
  for (const ShownTensor& one : tensors) {
    Facts entry{
        {"name", one.name},
        {"dtype", shown_type(one.tensor.type)},
        {"shape", one.tensor.shape},
        {"bytes", checkpoints::bytes_of(one.tensor)}};
    if (one.slices) {
      entry["slices"] = *one.slices;
    }
    if (one.summary) {
      entry["norm"] = one.summary->norm;
      entry["min"] = one.summary->least;
      entry["max"] = one.summary->most;
      entry["nans"] = one.summary->nans;
      entry["infinities"] = one.summary->infinities;
    }
    all.push_back(std::move(entry));
  }
  return all;
}

} // namespace

int run_checkpoint_inspect(const Arguments& arguments) {
  CommandLine line(
      "cairn checkpoint inspect PATH [FLAGS…]",
      "cairn checkpoint inspect run/checkpoints --tensors 'layers.0.*'");
  std::string path;
  std::string tag;
  std::string pattern;
  bool no_norms = false;
  bool json = false;
  CLI::App& app = line.app();
  app.description(
      "Shows what is in a checkpoint: its state and its tensors. PATH is a "
      "folder of\nCairn's, DeepSpeed's, Megatron's or Hugging Face's, or a "
      "file "
      "of torch.save or\nof safetensors. Norm, min and max are those of the "
      "finite elements.");
  app.add_option("path", path, "folder or file")->type_name("PATH")->required();
  app.add_option("--tag", tag, "which one, of a run's folder with several");
  app.add_option("--tensors", pattern, "only those, such as '*.bias'")
      ->type_name("PATTERN");
  app.add_flag("--no-norms", no_norms, "do not read the tensors");
  app.add_flag("--json", json, "for programs; nothing is cut off");
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  const CheckpointView view = checkpoints::view_checkpoint(path, tag);
  const NamedTensors weights = matching(view.weights, pattern);
  const NamedTensors states = matching(view.states, pattern);
  std::optional<Progress> bar;
  if (!no_norms) {
    bar.emplace(Progress::Options{
        .label = "reading",
        .total = checkpoints::bytes_of(weights) + checkpoints::bytes_of(states),
        .unit = "B"});
  }
  Progress* const progress = bar ? &*bar : nullptr;
  const auto shown_weights = shown_tensors(view, weights, progress);
  const auto shown_states = shown_tensors(view, states, progress);
  if (bar) {
    bar->done();
  }
  if (json) {
    print_json(
        {{"path", view.place.string()},
         {"format", name_of(view.format)},
         {"about", view.about},
         {"state", view.state},
         {"config", view.config},
         {"ties", view.ties},
         {"notes", view.notes},
         {"weights", to_json(shown_weights)},
         {"states", to_json(shown_states)}});
    return exit_ok;
  }
  fmt::print("{}: {}\n", shown_text(view.place.string()), name_of(view.format));
  for (const std::string& note : view.notes) {
    fmt::print("note: {}\n", shown_text(note));
  }
  print_facts("saved", view.about);
  print_facts("state", view.state);
  print_facts("config", view.config);
  Facts ties = Facts::object();
  for (const auto& [name, stored] : view.ties) {
    ties[name] = stored;
  }
  print_facts("ties", ties);
  print_tensors("weights", shown_weights, view.weights);
  print_tensors("other tensors", shown_states, view.states);
  std::fflush(stdout);
  return exit_ok;
}

} // namespace cairn::cli
