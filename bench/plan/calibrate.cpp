// plan_calibration: what `cairn plan` predicts for published runs.
//
//   plan_calibration published.json             a table of all rows
//   plan_calibration published.json --markdown  … for docs/planning.md
//   plan_calibration published.json --svg       the plot there
//   plan_calibration published.json --fit       fits the constants anew
#include "plan/fitting.h"
#include "plan/published.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>

namespace {

using namespace cairn::plan;

/// Mean of |error| over the rows, whether fitted on or not as `fit` says.
double mean_error(
    const std::vector<PublishedRow>& rows,
    const Setting& setting,
    const std::function<bool(const PublishedRow&)>& counts) {
  double sum = 0;
  double number = 0;
  for (const PublishedRow& row : rows) {
    if (row.iteration_seconds && counts(row)) {
      sum += std::abs(
          *predict(row, setting.constants, setting.shares).speed_error);
      ++number;
    }
  }
  return number > 0 ? sum / number : 0;
}

/// Coordinate descent with steps that shrink: the knobs are few and each
/// acts on a part of its own.
Setting fitted(const std::vector<PublishedRow>& rows) {
  Setting best = in_the_tree(rows);
  double least = badness(rows, best);
  for (double step = 0.2; step > 0.004; step /= 1.6) {
    bool moved = true;
    for (int round = 0; moved && round < 12; ++round) {
      moved = false;
      for (const Knob& knob : knobs_of(rows)) {
        for (const double factor : {1 + step, 1 / (1 + step)}) {
          Setting other = best;
          double& value = knob.value(other);
          value = std::clamp(value * factor, knob.least, knob.most);
          const double now = badness(rows, other);
          if (now < least - 1e-9) {
            least = now;
            best = other;
            moved = true;
          }
        }
      }
    }
    fmt::print(stderr, "step {:.3f}: {:.4f}\n", step, least);
  }
  return best;
}

std::string percent(double part) {
  return fmt::format("{:+.1f}%", 100 * part);
}

void print_errors(
    const std::vector<PublishedRow>& rows,
    const Setting& setting) {
  const auto published = [](const PublishedRow& row) {
    return !row.table.starts_with("Cairn") && row.not_judged.empty();
  };
  fmt::print(
      "mean absolute error of throughput: all {:.1f}%, held out {:.1f}%, "
      "fitted {:.1f}%\n",
      100 * mean_error(rows, setting, published),
      100 *
          mean_error(
              rows,
              setting,
              [&](const PublishedRow& row) {
                return published(row) && !row.fit;
              }),
      100 * mean_error(rows, setting, [&](const PublishedRow& row) {
        return published(row) && row.fit;
      }));
}

void print_table(
    const std::vector<PublishedRow>& rows,
    const Setting& setting) {
  for (const PublishedRow& row : rows) {
    const Prediction each = predict(row, setting.constants, setting.shares);
    const Estimate& e = each.estimate;
    fmt::print(
        "{:5} {:34} {:3} {:>9} {:9.3f} {:>7}  mem {:6.1f} {:>6} {:>7} {}",
        row.table,
        row.name,
        row.fit                      ? "fit"
            : row.not_judged.empty() ? ""
                                     : "-",
        row.iteration_seconds ? fmt::format("{:.3f}", *row.iteration_seconds)
                              : "",
        e.iteration_seconds,
        each.speed_error ? percent(*each.speed_error) : "",
        e.memory.total() / 1e9,
        row.memory_bytes ? fmt::format("{:.1f}", *row.memory_bytes / 1e9) : "",
        each.memory_error ? percent(*each.memory_error) : "",
        e.fits ? "" : "NO FIT ");
    for (const auto& [name, seconds] : parts_of(e.time)) {
      if (seconds > 0.02 * e.iteration_seconds) {
        fmt::print(" {} {:.0f}%", name, 100 * seconds / e.iteration_seconds);
      }
    }
    fmt::print("\n");
    if (row.largest) {
      fmt::print(
          "      smallest tensor parallel degree {} (published {}), largest "
          "batch {} (published {})\n",
          smallest_tensor_that_fits(row),
          row.layout.tensor,
          largest_batch_that_fits(row),
          row.layout.global_batch);
    }
  }
  print_errors(rows, setting);
}

/// Prints the time that computing an estimate takes, as the mean over the rows
/// and for the slowest of them.
void print_time_of_estimates(const std::vector<PublishedRow>& rows) {
  using Clock = std::chrono::steady_clock;
  double sum = 0;
  double most = 0;
  std::string slowest;
  for (const PublishedRow& row : rows) {
    const auto begin = Clock::now();
    predict(row);
    const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
    sum += took.count();
    if (took.count() > most) {
      most = took.count();
      slowest = row.name;
    }
  }
  fmt::print(
      "an estimate takes {:.2f} ms, that of {} {:.1f} ms\n",
      sum / static_cast<double>(rows.size()),
      slowest,
      most);
}

void print_markdown(const std::vector<PublishedRow>& rows) {
  fmt::print(
      "| table | run | fitted on | published, s | predicted, s | speed is off "
      "by | published, GB | predicted, GB | memory is off by |\n"
      "|---|---|---|---:|---:|---:|---:|---:|---:|\n");
  for (const PublishedRow& row : rows) {
    fmt::print("{}\n", markdown_of(row));
  }
}

/// Predicted over published tokens per second and GPU, both on logarithmic
/// axes: a perfect prediction is on the diagonal.
void print_svg(const std::vector<PublishedRow>& rows) {
  constexpr double size = 520;
  constexpr double edge = 56;
  constexpr double least = 1; // tokens/s, as powers of ten
  constexpr double most = 6;
  const auto at = [&](double value) {
    return (std::log10(value) - least) / (most - least) * size;
  };
  fmt::print(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {0}\" "
      "width=\"{0}\" height=\"{0}\" font-family=\"sans-serif\" "
      "font-size=\"12\" fill=\"#222\">\n<title>Predicted against published "
      "throughput</title>\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"#fff\"/>\n",
      size + 2 * edge);
  for (double power = least; power <= most; ++power) {
    const double x = edge + (power - least) / (most - least) * size;
    const double y = 2 * edge + size - x;
    fmt::print(
        "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}M{1:.1f} {3:.1f}H{2:.1f}\" "
        "stroke=\"#ddd\"/>\n<text x=\"{0:.1f}\" y=\"{4:.1f}\" "
        "text-anchor=\"middle\">10{5}</text>\n<text x=\"{6:.1f}\" "
        "y=\"{7:.1f}\" text-anchor=\"end\">10{5}</text>\n",
        x,
        edge,
        edge + size,
        y,
        edge + size + 18,
        std::string_view("⁰¹²³⁴⁵⁶").substr(
            power < 1.5       ? 3
                : power < 3.5 ? 5 + 2 * (static_cast<int>(power) - 2)
                              : 9 + 3 * (static_cast<int>(power) - 4),
            power < 3.5 ? 2 : 3),
        edge - 8,
        y + 4);
  }
  for (const double factor : {0.7, 1.0, 1.3}) {
    const double shift = std::log10(factor) / (most - least) * size;
    fmt::print(
        "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"#888\" {}/>\n",
        edge,
        edge + size - shift,
        edge + size,
        edge - shift,
        factor == 1 ? "" : "stroke-dasharray=\"4 4\"");
  }
  for (const PublishedRow& row : rows) {
    if (!row.iteration_seconds) {
      continue;
    }
    const Prediction each = predict(row);
    const double predicted = each.estimate.tokens_per_second_per_gpu;
    const double published = predicted / (1 + *each.speed_error);
    fmt::print(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\" "
        "stroke=\"#1a4f8a\"><title>{} {}: {}</title></circle>\n",
        edge + at(published),
        edge + size - at(predicted),
        row.fit ? "#fff" : "#4a90d9",
        row.table,
        row.name,
        percent(*each.speed_error));
  }
  fmt::print(
      "<text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\">published, tokens a "
      "second and GPU</text>\n<text x=\"14\" y=\"{0}\" text-anchor=\"middle\" "
      "transform=\"rotate(-90 14 {0})\">predicted</text>\n<text x=\"{2}\" "
      "y=\"{3}\">filled: held out; dashed: 30% off</text>\n</svg>\n",
      edge + size / 2,
      size + 2 * edge - 14,
      edge + 12,
      edge + 20);
}

void print_constants(const Setting& setting) {
  const Constants& c = setting.constants;
  fmt::print(
      "pieces {:.3f}\neager {:.3f}\nfused {:.3f}\ncompiled {:.3f}\nflash_share "
      "{:.3f}\nfast_share {:.3f}\nlink_share {:.3f}\ninterference {:.3f}\n",
      c.pieces,
      c.eager,
      c.fused,
      c.compiled,
      c.flash_share,
      c.fast_share,
      c.link_share,
      c.interference);
  for (const auto& [name, share] : setting.shares) {
    fmt::print("share of {}: {:.3f}\n", name, share);
  }
}

} // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[2] : "";
  if (argc < 2 ||
      (!mode.empty() && mode != "--fit" && mode != "--markdown" &&
       mode != "--svg")) {
    fmt::print(
        stderr,
        "usage: plan_calibration published.json [--fit|--markdown|--svg]\n");
    return 2;
  }
  try {
    const std::vector<PublishedRow> rows = read_published(argv[1]);
    if (mode == "--fit") {
      const Setting setting = fitted(rows);
      print_table(rows, setting);
      print_constants(setting);
    } else if (mode == "--markdown") {
      print_markdown(rows);
    } else if (mode == "--svg") {
      print_svg(rows);
    } else {
      print_table(rows, {});
      print_time_of_estimates(rows);
    }
  } catch (const cairn::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
