#include "report/chart_plan.h"

#include <algorithm>
#include <array>
#include <set>

namespace cairn::report {
namespace {

constexpr std::string_view learning = "Learning";
constexpr std::string_view speed = "Speed";
constexpr std::string_view memory = "Memory";
constexpr std::string_view batches = "Batches";
constexpr std::string_view others = "More";

/// A value that `cairn pretrain` logs.
struct Known {
  std::string_view curve;
  std::string_view section;
  std::string_view title;
  Unit unit = Unit::number;
  bool noisy = false;
  bool wide_range = false; ///< a spike would flatten the rest
  /// Hides the curve if it is the same at every step.
  bool only_if_it_changes = false;
};

constexpr std::array known_curves{
    Known{"learning rate", learning, "Learning rate"},
    Known{"grad norm", learning, "Gradient norm", Unit::number, true, true},
    Known{"loss scale", learning, "Loss scale", Unit::count, false, true},
    Known{"params norm", learning, "Norm of the parameters"},
    Known{"num zeros", learning, "Zeros in the gradient", Unit::count},
    Known{
        "skipped iterations",
        learning,
        "Skipped iterations",
        Unit::count,
        false,
        false,
        true},
    Known{
        "nan iterations",
        learning,
        "Iterations without a finite loss",
        Unit::count,
        false,
        false,
        true},
    Known{"tokens per second", speed, "Tokens per second", Unit::count},
    Known{"MFU", speed, "Model FLOP/s utilisation (MFU)", Unit::share},
    Known{
        "flops per second and rank",
        speed,
        "FLOP/s of one rank",
        Unit::flops},
    Known{"iteration (ms)", speed, "Time of an iteration", Unit::milliseconds},
    Known{"allocated bytes", memory, "Allocated memory", Unit::bytes},
    Known{
        "global batch size",
        batches,
        "Global batch size",
        Unit::count,
        false,
        false,
        true},
    Known{
        "sequence length",
        batches,
        "Sequence length",
        Unit::count,
        false,
        false,
        true},
};

/// Curves that are axes, or that other charts already show.
constexpr std::array<std::string_view, 6> not_drawn{
    "time",
    "curriculum seqlen", // same as the sequence length
    "consumed samples",
    "consumed tokens",
    "samples per second",
    "max allocated bytes"};

constexpr std::string_view validation_prefix = "validation ";
constexpr std::string_view test_prefix = "test ";

bool is_loss(std::string_view name) {
  return name.ends_with("loss") || name.ends_with("loss mean");
}

class Planner {
 public:
  explicit Planner(const std::vector<Run>& runs) : runs_(runs) {
    for (const Run& run : runs) {
      for (const auto& [name, curve] : run.log.curves) {
        if (!curve.empty() && std::ranges::find(names_, name) == names_.end()) {
          names_.push_back(name);
        }
      }
    }
    done_.insert(not_drawn.begin(), not_drawn.end());
  }

  std::vector<Chart> plan() {
    add_losses();
    for (const Known& known : known_curves) {
      add(known);
    }
    add_timers();
    add_others();
    // Groups the charts by section; sections are in the order of their first
    // chart.
    std::vector<std::string> order;
    for (const Chart& chart : charts_) {
      if (std::ranges::find(order, chart.section) == order.end()) {
        order.push_back(chart.section);
      }
    }
    std::ranges::stable_sort(charts_, {}, [&](const Chart& chart) {
      return std::ranges::find(order, chart.section) - order.begin();
    });
    return std::move(charts_);
  }

 private:
  bool has(const std::string& name) const {
    return std::ranges::find(names_, name) != names_.end();
  }
  bool take(const std::string& name) {
    return has(name) && done_.insert(name).second;
  }

  struct Range {
    double low = 0;
    double high = 0;
  };
  std::optional<Range> range(const std::vector<std::string>& names) const {
    std::optional<Range> range;
    for (const Run& run : runs_) {
      for (const std::string& name : names) {
        const Curve* curve = run.log.curve(name);
        if (curve == nullptr || !curve->lowest()) {
          continue;
        }
        if (!range) {
          range = Range{*curve->lowest(), *curve->highest()};
        }
        range->low = std::min(range->low, *curve->lowest());
        range->high = std::max(range->high, *curve->highest());
      }
    }
    return range;
  }
  bool has_points(const std::string& name, std::size_t least) const {
    return std::ranges::any_of(runs_, [&](const Run& run) {
      const Curve* curve = run.log.curve(name);
      return curve != nullptr && curve->points().size() >= least;
    });
  }
  bool spans(const std::vector<std::string>& names, double factor) const {
    const auto found = range(names);
    return found && found->low > 0 && found->high / found->low >= factor;
  }

  void add_losses() {
    for (const std::string& seen : names_) {
      // A run that only evaluates has no training loss.
      std::string name = seen;
      for (const std::string_view prefix : {validation_prefix, test_prefix}) {
        if (name.starts_with(prefix)) {
          name = name.substr(prefix.size());
        }
      }
      if (!is_loss(name) || loss_done_.contains(name)) {
        continue;
      }
      loss_done_.insert(name);
      Chart chart{
          .section = std::string(learning),
          .title = name == "lm loss" ? "Loss" : name,
          .noisy = true,
          .wide = charts_.empty()};
      const std::string validation = std::string(validation_prefix) + name;
      const std::string test = std::string(test_prefix) + name;
      chart.curves = {name};
      chart.labels = {""};
      done_.insert(name);
      if (take(validation)) {
        chart.curves.push_back(validation);
        chart.labels.emplace_back("validation");
      }
      if (take(test)) {
        chart.curves.push_back(test);
        chart.labels.emplace_back("test");
      }
      chart.logarithmic = spans(chart.curves, 8);
      charts_.push_back(std::move(chart));
    }
  }

  void add(const Known& known) {
    const std::string name(known.curve);
    if (!take(name)) {
      return;
    }
    const auto found = range({name});
    if (known.only_if_it_changes && found && found->low == found->high) {
      return;
    }
    if (known.unit == Unit::bytes && !has_points(name, 3)) {
      return; // logged once per start; the bar shows more
    }
    Chart chart{
        .section = std::string(known.section),
        .title = std::string(known.title),
        .unit = known.unit,
        .logarithmic = known.wide_range && spans({name}, 30),
        .noisy = known.noisy,
        .curves = {name},
        .labels = {""}};
    if (name == "allocated bytes" && has("max allocated bytes")) {
      chart.curves.emplace_back("max allocated bytes");
      chart.labels = {"now", "at most"};
    }
    charts_.push_back(std::move(chart));
  }

  void add_timers() {
    constexpr std::string_view suffix = " (ms)";
    for (const std::string& name : names_) {
      if (name.ends_with(suffix) && take(name)) {
        charts_.push_back(
            {.section = std::string(speed),
             .title = name.substr(0, name.size() - suffix.size()),
             .unit = Unit::milliseconds,
             .curves = {name},
             .labels = {""}});
      }
    }
  }

  void add_others() {
    for (const std::string& name : names_) {
      if (take(name)) {
        charts_.push_back(
            {.section = std::string(others),
             .title = name,
             .curves = {name},
             .labels = {""}});
      }
    }
  }

  const std::vector<Run>& runs_;
  std::vector<std::string> names_; ///< of all curves, in order of appearance
  std::set<std::string, std::less<>> done_;
  std::set<std::string> loss_done_;
  std::vector<Chart> charts_;
};

} // namespace

std::string_view name_of(Unit unit) {
  switch (unit) {
    case Unit::number:
      return "number";
    case Unit::count:
      return "count";
    case Unit::bytes:
      return "bytes";
    case Unit::milliseconds:
      return "ms";
    case Unit::share:
      return "share";
    case Unit::flops:
      return "flops";
  }
  return "";
}

std::vector<Chart> chart_plan(const std::vector<Run>& runs) {
  return Planner(runs).plan();
}

} // namespace cairn::report
