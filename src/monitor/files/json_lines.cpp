#include "monitor/files/json_lines.h"

#include "monitor/files/append_file.h"
#include "monitor/files/host_name.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <utility>

namespace cairn::monitor {
namespace {

using Json = nlohmann::ordered_json;

/// A JSON number; whole numbers are written as 32, not 32.0.
Json json_number(double value) {
  constexpr double exact = 9007199254740992.0; // 2^53
  if (std::trunc(value) == value && std::abs(value) < exact) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

Json json_texts(const NamedTexts& texts) {
  Json object = Json::object();
  for (const auto& [name, text] : texts) {
    object[name] = text;
  }
  return object;
}

Json event_line(const RunStart& start) {
  // A configuration in JSON is embedded as JSON, any other as a text.
  Json configuration =
      Json::parse(start.configuration, nullptr, /*allow_exceptions=*/false);
  if (configuration.is_discarded()) {
    configuration = start.configuration;
  }
  return {
      {"step", start.step},
      {"event", "start"},
      {"model", start.model},
      {"iterations", start.iterations},
      {"ranks", start.ranks},
      {"host", host_name()},
      {"versions", json_texts(start.versions)},
      {"given", json_texts(start.given)},
      {"configuration", std::move(configuration)}};
}

Json json_values(const std::vector<NamedValue>& values) {
  Json object = Json::object();
  for (const NamedValue& each : values) {
    object[each.name] = json_number(each.value);
  }
  return object;
}

Json event_line(const RunEstimate& estimate) {
  return {
      {"step", estimate.step},
      {"event", "estimate"},
      {"machine", estimate.machine},
      {"iteration_seconds", json_number(estimate.iteration_seconds)},
      {"bytes", json_values(estimate.bytes)}};
}

Json event_line(const RunMemory& memory) {
  return {
      {"step", memory.step},
      {"event", "memory"},
      {"device", memory.device},
      {"bytes", json_values(memory.bytes)}};
}

Json event_line(const RunEnd& end) {
  return {{"step", end.step}, {"event", "end"}, {"reason", end.reason}};
}

/// The text of a line, with the time at its end, to the millisecond.
std::string text_of(Json line, std::chrono::system_clock::time_point now) {
  using Milliseconds = std::chrono::milliseconds;
  const auto since_1970 =
      std::chrono::duration_cast<Milliseconds>(now.time_since_epoch());
  line["time"] = json_number(static_cast<double>(since_1970.count()) / 1000.0);
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace

JsonLines::JsonLines(const std::filesystem::path& file, Clock clock)
    : file_(std::make_unique<AppendFile>()), clock_(std::move(clock)) {
  file_->open(file, AppendFile::Begin::lines);
}

JsonLines::~JsonLines() = default; // nothing is held between calls

void JsonLines::write(std::span<const Scalar> scalars) {
  if (scalars.empty()) {
    return;
  }
  Json line{{"step", scalars.front().step}};
  for (const Scalar& scalar : scalars) {
    line[scalar.name] = json_number(scalar.value);
  }
  file_->add(text_of(std::move(line), clock_()));
  flush();
}

void JsonLines::event(const RunEvent& event) {
  Json line = std::visit([](const auto& e) { return event_line(e); }, event);
  file_->add(text_of(std::move(line), clock_()));
  flush();
}

void JsonLines::flush() {
  file_->flush();
}

} // namespace cairn::monitor
