#include <cairn/monitor/json_lines.h>

#include "monitor/append_file.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace cairn::monitor {
namespace {

/// Counts look like counts: 32, not 32.0.
nlohmann::ordered_json json_number(double value) {
  constexpr double exact = 9007199254740992.0; // 2^53
  if (std::trunc(value) == value && std::abs(value) < exact) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

} // namespace

JsonLines::JsonLines(const std::filesystem::path& file)
    : file_(std::make_unique<AppendFile>()) {
  file_->open(file, AppendFile::Begin::lines);
}

JsonLines::~JsonLines() = default; // nothing is held between calls

void JsonLines::write(std::span<const Scalar> scalars) {
  if (scalars.empty()) {
    return;
  }
  nlohmann::ordered_json line{{"step", scalars.front().step}};
  for (const Scalar& scalar : scalars) {
    line[scalar.name] = json_number(scalar.value);
  }
  using Handler = nlohmann::ordered_json::error_handler_t;
  file_->add(line.dump(-1, ' ', false, Handler::replace) + "\n");
  flush();
}

void JsonLines::flush() {
  file_->flush();
}

} // namespace cairn::monitor
