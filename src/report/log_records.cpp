#include "report/log_records.h"

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace cairn::report {

namespace dom = simdjson::dom;

namespace {

// Limits that no honest log comes near.
constexpr std::size_t most_curves = 256;
constexpr std::size_t most_starts = 1000;
constexpr std::size_t most_texts = 2000;
constexpr std::size_t longest_name = 200;
constexpr std::size_t longest_text = 4000;
constexpr std::size_t longest_configuration = 1 << 20;
constexpr std::int64_t last_possible_step = std::int64_t{1} << 53;

std::string cut(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) {
    return std::string(text);
  }
  // Does not cut inside a character: the text is valid UTF-8.
  while (longest > 0 &&
         (static_cast<unsigned char>(text[longest]) & 0xc0) == 0x80) {
    --longest;
  }
  return std::string(text.substr(0, longest)) + "…";
}

std::optional<std::int64_t> step_of(const dom::object& record) {
  std::int64_t step = 0;
  if (record["step"].get(step) != simdjson::SUCCESS || step < 0 ||
      step >= last_possible_step) {
    return std::nullopt;
  }
  return step;
}

std::optional<double> number(const dom::object& record, std::string_view name) {
  double value = 0;
  if (record[name].get(value) != simdjson::SUCCESS || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> whole_number(
    const dom::object& record,
    std::string_view name) {
  std::int64_t value = 0;
  if (record[name].get(value) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  return value;
}

std::string text(const dom::object& record, std::string_view name) {
  std::string_view value;
  if (record[name].get(value) != simdjson::SUCCESS) {
    return {};
  }
  return cut(value, longest_text);
}

/// The members of an object: texts as they are, anything else as JSON.
NamedTexts texts(const dom::object& record, std::string_view name) {
  NamedTexts result;
  dom::object object;
  if (record[name].get(object) != simdjson::SUCCESS) {
    return result;
  }
  for (const dom::key_value_pair field : object) {
    if (result.size() == most_texts) {
      break;
    }
    std::string_view value;
    const std::string shown = field.value.get(value) == simdjson::SUCCESS
        ? std::string(value)
        : simdjson::minify(field.value);
    result.emplace_back(cut(field.key, longest_name), cut(shown, longest_text));
  }
  return result;
}

/// The line with Python's NaN, Infinity and -Infinity, which JSON does not
/// have, replaced.
std::string without_python_names(std::string_view line) {
  std::string result;
  result.reserve(line.size());
  bool in_text = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      in_text = !in_text;
    } else if (line[i] == '\\' && in_text && i + 1 < line.size()) {
      result += line[i++];
    } else if (!in_text) {
      const std::string_view rest = line.substr(i);
      std::size_t length = 0;
      for (const std::string_view name : {"-Infinity", "Infinity", "NaN"}) {
        if (rest.starts_with(name)) {
          length = name.size();
          break;
        }
      }
      if (length > 0) {
        result += "null";
        i += length - 1;
        continue;
      }
    }
    result += line[i];
  }
  return result;
}

void cut_all_after(RunLog& log, std::int64_t step) {
  for (auto& [name, curve] : log.curves) {
    curve.cut_after(step);
  }
  log.last_step = std::min(log.last_step, step);
}

void add_start(RunLog& log, StartRecord start) {
  start.reached = log.last_step;
  if (log.records > 0) {
    ++log.restarts;
  }
  cut_all_after(log, start.step);
  log.end.reset();
  if (log.starts.size() < most_starts) {
    log.starts.push_back(std::move(start));
  }
}

void take_start(
    RunLog& log,
    const dom::object& record,
    std::int64_t step,
    std::optional<double> time) {
  add_start(
      log,
      {.step = step,
       .time = time,
       .ranks = whole_number(record, "ranks"),
       .host = text(record, "host")});
  log.last_step = step;
  log.model = text(record, "model");
  log.iterations = whole_number(record, "iterations");
  log.versions = texts(record, "versions");
  log.given = texts(record, "given");
  log.configuration.clear();
  dom::element configuration;
  if (record["configuration"].get(configuration) == simdjson::SUCCESS) {
    std::string json = simdjson::minify(configuration);
    if (json.size() <= longest_configuration) {
      log.configuration = std::move(json);
    }
  }
}

/// The positive numbers in the record's "bytes".
std::vector<std::pair<std::string, double>> bytes_of(
    const dom::object& record) {
  std::vector<std::pair<std::string, double>> all;
  dom::object bytes;
  if (record["bytes"].get(bytes) == simdjson::SUCCESS) {
    for (const dom::key_value_pair field : bytes) {
      double value = 0;
      if (field.value.get(value) == simdjson::SUCCESS && value > 0 &&
          std::isfinite(value) && all.size() < most_curves) {
        all.emplace_back(cut(field.key, longest_name), value);
      }
    }
  }
  return all;
}

void take_memory(RunLog& log, const dom::object& record, std::int64_t step) {
  log.memory = MemoryRecord{
      .step = step,
      .device = text(record, "device"),
      .bytes = bytes_of(record)};
}

void take_estimate(RunLog& log, const dom::object& record) {
  log.estimate = EstimateRecord{
      .machine = text(record, "machine"),
      .iteration_seconds = number(record, "iteration_seconds"),
      .bytes = bytes_of(record)};
}

Curve* curve_named(RunLog& log, std::string_view name) {
  for (auto& [known, curve] : log.curves) {
    if (known == name) {
      return &curve;
    }
  }
  if (log.curves.size() == most_curves || name.size() > longest_name) {
    ++log.ignored_values;
    return nullptr;
  }
  return &log.curves.emplace_back(std::string(name), Curve()).second;
}

void take_value(
    RunLog& log,
    std::string_view name,
    std::int64_t step,
    double value,
    std::optional<double> time) {
  Curve* curve = curve_named(log, name);
  if (curve == nullptr) {
    return;
  }
  if (!curve->empty() && curve->last_step() > step) {
    // The run went back, and the log has no record of a restart.
    if (log.starts.empty()) {
      log.starts.push_back({.time = log.first_time});
    }
    add_start(log, {.step = step - 1, .time = time});
  } else if (!curve->empty() && curve->last_step() == step) {
    curve->cut_after(step - 1);
  }
  curve->add(step, value);
}

void take_values(
    RunLog& log,
    const dom::object& record,
    std::int64_t step,
    std::optional<double> time) {
  for (const dom::key_value_pair field : record) {
    if (field.key == "step" || field.key == "event") {
      continue;
    }
    double value = std::numeric_limits<double>::quiet_NaN();
    if (field.value.is_null() || field.value.get(value) == simdjson::SUCCESS) {
      take_value(log, field.key, step, value, time);
    }
  }
  log.last_step = std::max(log.last_step, step);
}

} // namespace

const Curve* RunLog::curve(std::string_view name) const {
  for (const auto& [known, curve] : curves) {
    if (known == name && !curve.empty()) {
      return &curve;
    }
  }
  return nullptr;
}

struct LogRecords::Parser {
  dom::parser json;

  /// Parses a line into an object with a step, valid until the next line.
  std::optional<std::pair<dom::object, std::int64_t>> record(
      std::string_view line) {
    dom::object object;
    if (json.parse(line.data(), line.size()).get(object) != simdjson::SUCCESS &&
        json.parse(without_python_names(line)).get(object) !=
            simdjson::SUCCESS) {
      return std::nullopt;
    }
    const auto step = step_of(object);
    if (!step) {
      return std::nullopt;
    }
    return std::pair(object, *step);
  }
};

LogRecords::LogRecords() : parser_(std::make_unique<Parser>()) {}
LogRecords::~LogRecords() = default;
LogRecords::LogRecords(LogRecords&&) noexcept = default;
LogRecords& LogRecords::operator=(LogRecords&&) noexcept = default;

void LogRecords::add(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == line.npos) {
    return;
  }
  const auto record = parser_->record(line);
  if (!record) {
    ++log_.broken_lines;
    return;
  }
  const auto& [object, step] = *record;
  const auto time = number(object, "time");
  if (time) {
    log_.first_time = log_.first_time.value_or(*time);
    log_.last_time = *time;
  }
  std::string_view event;
  if (object["event"].get(event) != simdjson::SUCCESS) {
    take_values(log_, object, step, time);
  } else if (event == "start") {
    take_start(log_, object, step, time);
  } else if (event == "estimate") {
    take_estimate(log_, object);
  } else if (event == "memory") {
    take_memory(log_, object, step);
  } else if (event == "end") {
    log_.end = EndRecord{step, time, text(object, "reason")};
    log_.last_step = std::max(log_.last_step, step);
  }
  ++log_.records;
}

bool is_log_record(std::string_view line) {
  LogRecords records;
  records.add(line);
  return records.log().records > 0;
}

} // namespace cairn::report
