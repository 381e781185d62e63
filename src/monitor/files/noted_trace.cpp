#include "monitor/files/noted_trace.h"

#include "base/internal/file_error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace cairn::monitor {
namespace {

// The profiler writes one event as these lines; others have no "args".
//   {
//     "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
//     "ts": 1.5, "dur": 2.5,
//     "args": {
//       "External id": 3, …
//     }
//   },
constexpr std::string_view event_begins = "  {";
constexpr std::string_view id_key = "\"External id\": ";

struct Line {
  std::size_t number = 0; ///< within the event
  std::size_t at = 0;     ///< behind the id
  std::uint64_t id = 0;
};

std::optional<Line> find_id(const std::vector<std::string>& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    const std::size_t first = line.find_first_not_of(' ');
    if (first == line.npos ||
        !std::string_view(line).substr(first).starts_with(id_key)) {
      continue;
    }
    Line found{.number = i};
    const char* digits = line.data() + first + id_key.size();
    const auto [end, error] =
        std::from_chars(digits, line.data() + line.size(), found.id);
    if (error != std::errc{}) {
      return std::nullopt;
    }
    found.at = static_cast<std::size_t>(end - line.data());
    return found;
  }
  return std::nullopt;
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text)
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The first `"KEY": "VALUE"` of the line becomes that value.
void replace_value(
    std::string& line,
    std::string_view key,
    const std::string& value) {
  const auto begin = line.find(fmt::format("\"{}\": \"", key));
  if (begin == line.npos) {
    return;
  }
  const auto from = begin + key.size() + 4; // the value's first quote
  auto to = from + 1;
  while (to < line.size() && line[to] != '"') {
    to += line[to] == '\\' ? 2 : 1;
  }
  if (to < line.size()) {
    line.replace(from, to + 1 - from, quoted(value));
  }
}

void add_note(
    std::vector<std::string>& lines,
    const Line& line,
    const TraceNote& note) {
  if (lines.size() < 2) {
    return;
  }
  std::string& head = lines[1];
  const auto is = [&](std::string_view category) {
    return head.find(fmt::format("\"cat\": \"{}\"", category)) != head.npos;
  };
  std::string added;
  if (is("user_annotation") && note.scope) {
    replace_value(head, "cat", "python_function");
    replace_value(head, "name", "nn.Module: " + note.module);
    added =
        fmt::format(", \"Python id\": {}, \"Python module id\": 0", line.id);
    if (note.scope->parent != 0) {
      added += fmt::format(", \"Python parent id\": {}", note.scope->parent);
    }
  }
  if (!note.module.empty()) {
    added += fmt::format(", \"Module\": {}", quoted(note.module));
  }
  if (note.flops != 0 && is("cpu_op")) {
    added += fmt::format(", \"FLOPs\": {}", note.flops);
  }
  if (note.stack && is("cpu_op")) {
    added += fmt::format(", \"Call stack\": {}", quoted(*note.stack));
  }
  lines[line.number].insert(line.at, added);
}

} // namespace

void add_notes(const std::filesystem::path& trace, const TraceNotes& notes) {
  std::filesystem::path written = trace;
  written += ".part";
  std::ifstream in(trace);
  std::ofstream out(written);
  std::vector<std::string> event;
  bool inside = false;
  const auto flush = [&] {
    if (const auto line = find_id(event)) {
      if (const auto note = notes.find(line->id); note != notes.end()) {
        add_note(event, *line, note->second);
      }
    }
    for (const std::string& each : event) {
      out << each << '\n';
    }
    event.clear();
    inside = false;
  };
  for (std::string line; std::getline(in, line);) {
    if (line == event_begins) { // so does the file itself begin
      flush();
      inside = true;
    }
    const bool last = inside && (line == "  }," || line == "  }");
    event.push_back(std::move(line));
    if (!inside || last) {
      flush();
    }
  }
  flush();
  const int read_error = in.bad() || !in.eof() ? (errno != 0 ? errno : EIO) : 0;
  out.close();
  std::error_code error;
  if (read_error != 0 || !out) {
    const int code = errno != 0 ? errno : EIO;
    std::filesystem::remove(written, error);
    throw file_error(
        read_error != 0 ? "read the trace" : "write the trace",
        trace,
        read_error != 0 ? read_error : code);
  }
  std::filesystem::rename(written, trace, error);
  if (error) {
    throw file_error("write the trace", trace, error.value());
  }
}

} // namespace cairn::monitor
