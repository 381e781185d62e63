#include "report/internal/report.h"
#include "report/page.h"
#include "report/page_data.h"
#include "report/run_set.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <chrono>
#include <fstream>

namespace cairn::report {
namespace {

namespace fs = std::filesystem;

/// Throws unless `page` is a report or does not exist: a typing error must not
/// cost a log.
void require_replaceable(const fs::path& page) {
  std::error_code error;
  const fs::file_status status = fs::status(page, error);
  if (status.type() == fs::file_type::not_found) {
    return;
  }
  if (status.type() == fs::file_type::directory) {
    throw DataError(
        {.what = "is a folder",
         .where = page.string(),
         .remedy = "name a file for the page"});
  }
  if (status.type() == fs::file_type::regular) {
    std::ifstream file(page, std::ios::binary);
    std::string begin(1024, '\0');
    file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
    begin.resize(static_cast<std::size_t>(file.gcount()));
    if (begin.empty() || is_report_page(begin)) {
      return;
    }
  }
  throw DataError(
      {.what = "is there already and is no page of `cairn report`",
       .where = page.string(),
       .remedy = "remove it, or choose another with --output"});
}

double seconds_since_1970() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

} // namespace

fs::path default_page(const Places& places) {
  if (places.size() != 1) {
    return "report.html";
  }
  std::error_code ignored;
  if (fs::is_directory(places.front(), ignored)) {
    return places.front() / "report.html";
  }
  return fs::path(places.front()).replace_extension(".html");
}

Written write_report(const Places& places, const fs::path& page) {
  RunSet set(places);
  set.update();
  const std::vector<Run> runs = set.runs();
  if (runs.empty()) {
    set.refuse_empty();
  }
  require_replaceable(page);
  write_file_atomically(
      page,
      html_page(set.title(), page_data(runs, {.made = seconds_since_1970()})));
  return {page, runs.size()};
}

} // namespace cairn::report
