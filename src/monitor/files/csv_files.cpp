#include "monitor/files/csv_files.h"

#include "base/internal/file_error.h"
#include "monitor/files/append_file.h"
#include "monitor/files/python_number.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace cairn::monitor {
namespace {

std::string csv_name(std::string curve) {
  std::replace_if(
      curve.begin(),
      curve.end(),
      [](char c) { return c == '/' || c == ' '; },
      '_');
  return curve + ".csv";
}

std::string csv_header(const std::string& curve) {
  std::string column = curve.substr(curve.rfind('/') + 1);
  if (column.find_first_of(",\"\n") != column.npos) {
    std::string quoted = "\"";
    for (const char c : column) {
      quoted += c == '"' ? "\"\"" : std::string(1, c);
    }
    column = quoted + "\"";
  }
  return fmt::format("step,{}\n", column);
}

} // namespace

CsvFiles::CsvFiles(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    throw file_error("make the folder", folder_, error.value());
  }
}

CsvFiles::~CsvFiles() = default; // nothing is held between calls

AppendFile& CsvFiles::file_of(const std::string& name) {
  auto& file = files_[name];
  if (!file) {
    auto opened = std::make_unique<AppendFile>();
    opened->open(folder_ / csv_name(name), AppendFile::Begin::lines);
    file = std::move(opened);
  }
  return *file;
}

void CsvFiles::write(std::span<const Scalar> scalars) {
  for (const Scalar& scalar : scalars) {
    AppendFile& file = file_of(scalar.name);
    if (file.empty()) {
      file.add(csv_header(scalar.name));
    }
    file.add(fmt::format("{},{}\n", scalar.step, python_number(scalar.value)));
  }
  flush();
}

void CsvFiles::flush() {
  for (const auto& [name, file] : files_) {
    if (file) {
      file->flush();
    }
  }
}

} // namespace cairn::monitor
