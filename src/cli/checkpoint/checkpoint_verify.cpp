#include "base/internal/crc32c.h"
#include "base/internal/progress.h"
#include "checkpoints/internal/checkpoint_folder.h"
#include "checkpoints/internal/checkpoint_view.h"
#include "checkpoints/internal/list_checkpoints.h"
#include "checkpoints/internal/verify_checkpoint.h"
#include "cli/checkpoint/checkpoint_command.h"
#include "cli/program/byte_size.h"
#include "cli/program/command_line.h"
#include "cli/program/text_table.h"
#include "cli/train/stop_signal.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using checkpoints::CheckpointFormat;
using checkpoints::Facts;
using checkpoints::VerifyReport;

struct Verified {
  fs::path place;
  CheckpointFormat format = CheckpointFormat::native;
  VerifyReport report;
};

/// Reads every tensor, for formats without checksums.
VerifyReport read_all(
    const fs::path& place,
    const std::function<void(std::uint64_t)>& advance) {
  VerifyReport report;
  try {
    const auto view = checkpoints::view_checkpoint(place);
    for (const auto* tensors : {&view.weights, &view.states}) {
      for (const auto& [name, tensor] : *tensors) {
        try {
          std::uint32_t sum = 0; // makes sure that every byte is read
          tensor.stream([&](std::span<const std::byte> part) {
            sum = crc32c(part, sum);
            advance(part.size());
          });
        } catch (const Error& error) {
          report.faults.push_back(fmt::format("{}: {}", name, error.what()));
        }
        ++report.tensors;
        report.bytes += checkpoints::bytes_of(tensor);
      }
    }
  } catch (const Error& error) {
    report.faults.push_back(error.what());
  }
  return report;
}

/// The checkpoints to verify, and the faults of the folder itself.
std::vector<Verified> found_in(
    const fs::path& path,
    const std::string& tag,
    std::uint64_t& bytes) {
  if (!tag.empty()) {
    checkpoints::check_tag(tag);
  }
  const fs::path chosen = tag.empty() ? path : path / tag;
  if (!fs::is_directory(chosen)) {
    return {{chosen, checkpoints::detect_checkpoint_format(chosen), {}}};
  }
  const auto list = checkpoints::list_checkpoints(chosen);
  std::vector<Verified> found;
  bool named = list.latest.empty();
  for (const auto& one : list.checkpoints) {
    const bool inside = fs::is_directory(chosen / one.tag);
    found.push_back({inside ? chosen / one.tag : chosen, one.format, {}});
    bytes += one.bytes;
    named = named || one.tag == list.latest;
  }
  if (found.empty()) {
    throw CheckpointError(
        {.what = "no checkpoint in this folder", .where = chosen.string()});
  }
  if (!list.latest_problem.empty()) {
    found.push_back({chosen, found.front().format, {}});
    found.back().report.faults.push_back(list.latest_problem);
  }
  if (!named) {
    found.push_back({chosen, found.front().format, {}});
    found.back().report.faults.push_back(
        fmt::format("`latest` names {}, which is not there", list.latest));
  }
  return found;
}

Facts to_json(const std::vector<Verified>& all) {
  Facts result = Facts::array();
  for (const Verified& one : all) {
    result.push_back(
        {{"path", one.place.string()},
         {"format", name_of(one.format)},
         {"tensors", one.report.tensors},
         {"bytes", one.report.bytes},
         {"checksums", one.format == CheckpointFormat::native},
         {"manifest_checked", one.report.manifest_checked},
         {"faults", one.report.faults},
         {"doubts", one.report.doubts}});
  }
  return result;
}

/// What was read, and what it was held against.
std::string what_was_read(const Verified& one) {
  const VerifyReport& report = one.report;
  const std::string tensors = fmt::format(
      "{} tensors, {}",
      report.tensors,
      shown_byte_size(report.bytes));
  if (one.format != CheckpointFormat::native) {
    return tensors + " read; the format has no checksums";
  }
  if (report.tensors == 0) {
    return "only the manifest was read";
  }
  return fmt::format(
      "{} in {} {} and the manifest {}",
      tensors,
      report.files,
      report.files == 1 ? "file" : "files",
      report.manifest_checked
          ? "held against their checksums"
          : "read; all have checksums but the manifest, which an older Cairn "
            "wrote");
}

std::string counted(std::size_t number, const char* noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

void print_verified(const Verified& one) {
  constexpr std::size_t most = 50;
  const VerifyReport& report = one.report;
  fmt::print(
      "{:<6} {}: {}\n",
      report.faults.empty() ? "ok" : "read",
      shown_text(one.place.string()),
      what_was_read(one));
  for (std::size_t i = 0; i < std::min(most, report.faults.size()); ++i) {
    fmt::print("FAULT  {}\n", shown_text(report.faults[i]));
  }
  if (report.faults.size() > most) {
    fmt::print("       … {} more\n", report.faults.size() - most);
  }
  for (const std::string& doubt : report.doubts) {
    fmt::print("doubt  {}\n", shown_text(doubt));
  }
}

} // namespace

int run_checkpoint_verify(const Arguments& arguments) {
  CommandLine line(
      "cairn checkpoint verify PATH [--tag TAG] [--json]",
      "cairn checkpoint verify run/checkpoints --tag global_step1000");
  std::string path;
  std::string tag;
  bool json = false;
  CLI::App& app = line.app();
  app.description(
      "Reads checkpoints, all of them in a run's folder, and checks every "
      "checksum,\nthat each tensor is there completely and once, that files "
      "and manifest agree and\nthat nothing else lies there. Of other formats, "
      "every tensor is read. Exit code 1\nwhen something is wrong; a doubt, "
      "which "
      "nothing in the checkpoint can settle,\nis told and leaves it 0.");
  app.add_option("path", path, "a run's folder, one checkpoint's, or a file")
      ->type_name("PATH")
      ->required();
  app.add_option("--tag", tag, "only this one");
  app.add_flag("--json", json, "for programs");
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  watch_stop_signals();
  std::uint64_t bytes = 0;
  std::vector<Verified> all = found_in(path, tag, bytes);
  std::optional<Progress> bar(
      std::in_place,
      Progress::Options{.label = "verifying", .total = bytes, .unit = "B"});
  const auto advance = [&](std::uint64_t count) {
    throw_if_stopped();
    bar->advance(count);
  };
  std::size_t done = 0;
  std::size_t faults = 0;
  std::size_t doubts = 0;
  int interrupted = 0;
  try {
    for (; done < all.size(); ++done) {
      Verified& one = all[done];
      if (one.report.faults.empty()) {
        one.report = one.format == CheckpointFormat::native
            ? checkpoints::verify_native(one.place, advance)
            : read_all(one.place, advance);
      }
      faults += one.report.faults.size();
      doubts += one.report.doubts.size();
    }
    bar->done();
  } catch (const Stopped& stopped) {
    interrupted = stopped.exit_code;
    all.resize(done);
  }
  bar.reset();
  if (json) {
    print_json(to_json(all));
  } else {
    std::ranges::for_each(all, print_verified);
  }
  std::fflush(stdout);
  if (interrupted != 0) {
    fmt::print(stderr, "cairn: interrupted; the rest was not read\n");
    return interrupted;
  }
  if (faults > 0) {
    throw CheckpointError(
        {.what = counted(faults, "fault") + " found", .where = path});
  }
  if (doubts > 0) {
    fmt::print(
        stderr,
        "cairn: no fault found, and {} that no checksum can settle\n",
        counted(doubts, "doubt"));
  }
  return exit_ok;
}

} // namespace cairn::cli
