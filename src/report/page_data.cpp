#include "report/page_data.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <type_traits>

namespace cairn::report {
namespace {

/// Writes JSON from front to back.
class JsonText {
 public:
  std::string take() { return std::move(text_); }

  void raw(std::string_view json) { text_ += json; }
  void text(std::string_view value) {
    using Json = nlohmann::json;
    const std::string quoted =
        Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
    for (const char c : quoted) {
      switch (c) {
        case '<':
          text_ += "\\u003c";
          break;
        case '>':
          text_ += "\\u003e";
          break;
        case '&':
          text_ += "\\u0026";
          break;
        default:
          text_ += c;
      }
    }
  }
  void number(double value) {
    if (std::isfinite(value)) {
      fmt::format_to(std::back_inserter(text_), "{:.9g}", value);
    } else {
      text_ += "null";
    }
  }
  /// Writes all digits of the value.
  void exact(double value) {
    if (std::isfinite(value)) {
      fmt::format_to(std::back_inserter(text_), "{}", value);
    } else {
      text_ += "null";
    }
  }
  void integer(std::int64_t value) {
    fmt::format_to(std::back_inserter(text_), "{}", value);
  }
  void boolean(bool value) { text_ += value ? "true" : "false"; }

  /// Writes a name, and calls `write` for its value.
  template <typename Write>
  void field(std::string_view name, const Write& write) {
    comma();
    text(name);
    text_ += ':';
    write();
  }
  template <typename Items, typename Write>
  void list(const Items& items, const Write& write) {
    text_ += '[';
    for (const auto& item : items) {
      comma();
      write(item);
    }
    text_ += ']';
  }
  template <typename Write>
  void object(const Write& write) {
    text_ += '{';
    write();
    text_ += '}';
  }

 private:
  void comma() {
    if (text_.back() != '{' && text_.back() != '[') {
      text_ += ',';
    }
  }
  std::string text_;
};

template <typename T>
void write_optional(JsonText& json, const std::optional<T>& value) {
  if (!value) {
    json.raw("null");
  } else if constexpr (std::is_floating_point_v<T>) {
    json.exact(*value);
  } else {
    json.integer(*value);
  }
}

void write_texts(JsonText& json, const NamedTexts& texts) {
  json.list(texts, [&](const auto& pair) {
    json.raw("[");
    json.text(pair.first);
    json.raw(",");
    json.text(pair.second);
    json.raw("]");
  });
}

/// The points of a curve; fewer when many runs share the page.
std::vector<Curve::Point> thinned(const Curve& curve, std::size_t buckets) {
  auto points = curve.points();
  if (points.size() <= 2 * buckets) {
    return points;
  }
  Curve thinner(buckets);
  for (const Curve::Point& point : points) {
    thinner.add(point.step, point.value);
  }
  return thinner.points();
}

void write_curve(
    JsonText& json,
    const Curve& curve,
    bool exact,
    std::size_t buckets) {
  const auto points = thinned(curve, buckets);
  json.object([&] {
    json.field("x", [&] {
      json.list(points, [&](const auto& point) { json.integer(point.step); });
    });
    json.field("y", [&] {
      json.list(points, [&](const auto& point) {
        exact ? json.exact(point.value) : json.number(point.value);
      });
    });
    json.field("last", [&] { write_optional(json, curve.last()); });
    json.field("lowest", [&] { write_optional(json, curve.lowest()); });
    json.field("highest", [&] { write_optional(json, curve.highest()); });
    json.field("mean", [&] { write_optional(json, curve.mean()); });
  });
}

/// The configuration indented for people. Text that is not JSON, which should
/// not occur, stays as it is.
std::string pretty(const std::string& configuration) {
  using Json = nlohmann::ordered_json;
  const Json parsed = Json::parse(configuration, nullptr, false);
  return parsed.is_discarded()
      ? configuration
      : parsed.dump(2, ' ', false, Json::error_handler_t::replace);
}

void write_start(JsonText& json, const StartRecord& start) {
  json.object([&] {
    json.field("step", [&] { json.integer(start.step); });
    json.field("reached", [&] { json.integer(start.reached); });
    json.field("time", [&] { write_optional(json, start.time); });
    json.field("ranks", [&] { write_optional(json, start.ranks); });
    json.field("host", [&] { json.text(start.host); });
  });
}

void write_bytes(
    JsonText& json,
    const std::vector<std::pair<std::string, double>>& bytes) {
  json.field("bytes", [&] {
    json.list(bytes, [&](const auto& part) {
      json.raw("[");
      json.text(part.first);
      json.raw(",");
      json.number(part.second);
      json.raw("]");
    });
  });
}

void write_estimate(JsonText& json, const EstimateRecord& estimate) {
  json.object([&] {
    json.field("machine", [&] { json.text(estimate.machine); });
    json.field("iteration_seconds", [&] {
      write_optional(json, estimate.iteration_seconds);
    });
    write_bytes(json, estimate.bytes);
  });
}

void write_events(JsonText& json, const RunLog& log) {
  json.field("starts", [&] {
    json.list(log.starts, [&](const auto& start) { write_start(json, start); });
  });
  json.field("restarts", [&] { json.integer(log.restarts); });
  if (log.end) {
    json.field("end", [&] {
      json.object([&] {
        json.field("step", [&] { json.integer(log.end->step); });
        json.field("time", [&] { write_optional(json, log.end->time); });
        json.field("reason", [&] { json.text(log.end->reason); });
      });
    });
  }
  if (log.estimate) {
    json.field("estimate", [&] { write_estimate(json, *log.estimate); });
  }
  if (log.memory) {
    json.field("memory", [&] {
      json.object([&] {
        json.field("step", [&] { json.integer(log.memory->step); });
        json.field("device", [&] { json.text(log.memory->device); });
        write_bytes(json, log.memory->bytes);
      });
    });
  }
}

void write_run(JsonText& json, const Run& run, std::size_t buckets) {
  const RunLog& log = run.log;
  json.object([&] {
    json.field("name", [&] { json.text(run.name); });
    json.field("path", [&] { json.text(run.path); });
    json.field("model", [&] { json.text(log.model); });
    json.field("iterations", [&] { write_optional(json, log.iterations); });
    json.field("last_step", [&] { json.integer(log.last_step); });
    json.field("first_time", [&] { write_optional(json, log.first_time); });
    json.field("last_time", [&] { write_optional(json, log.last_time); });
    json.field("records", [&] { json.integer(log.records); });
    json.field("broken_lines", [&] { json.integer(log.broken_lines); });
    json.field("ignored_values", [&] { json.integer(log.ignored_values); });
    write_events(json, log);
    json.field("versions", [&] { write_texts(json, log.versions); });
    json.field("given", [&] { write_texts(json, log.given); });
    json.field("configuration", [&] { json.text(pretty(log.configuration)); });
    json.field("curves", [&] {
      json.object([&] {
        for (const auto& [name, curve] : log.curves) {
          if (!curve.empty()) {
            json.field(name, [&, &curve = curve, &name = name] {
              write_curve(json, curve, name == "time", buckets);
            });
          }
        }
      });
    });
  });
}

void write_chart(JsonText& json, const Chart& chart) {
  const auto texts = [&](const std::vector<std::string>& list) {
    json.list(list, [&](const std::string& text) { json.text(text); });
  };
  json.object([&] {
    json.field("section", [&] { json.text(chart.section); });
    json.field("title", [&] { json.text(chart.title); });
    json.field("unit", [&] { json.text(name_of(chart.unit)); });
    json.field("log", [&] { json.boolean(chart.logarithmic); });
    json.field("noisy", [&] { json.boolean(chart.noisy); });
    json.field("wide", [&] { json.boolean(chart.wide); });
    json.field("curves", [&] { texts(chart.curves); });
    json.field("labels", [&] { texts(chart.labels); });
  });
}

} // namespace

std::string page_data(
    const std::vector<Run>& runs,
    const PageOptions& options) {
  const std::size_t buckets =
      std::clamp<std::size_t>(8192 / (runs.size() + 1), 256, 2048);
  JsonText json;
  json.object([&] {
    json.field("made", [&] { json.exact(options.made); });
    json.field("refresh", [&] { json.exact(options.refresh); });
    json.field("version", [&] {
      json.integer(static_cast<std::int64_t>(options.version));
    });
    json.field("charts", [&] {
      json.list(chart_plan(runs), [&](const Chart& chart) {
        write_chart(json, chart);
      });
    });
    json.field("runs", [&] {
      json.list(runs, [&](const Run& run) { write_run(json, run, buckets); });
    });
  });
  return json.take();
}

} // namespace cairn::report
