#include "report/find_logs.h"

#include "report/log_records.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace cairn::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_runs = 64;

/// True when one of the first lines is a record.
bool looks_like_a_log(const fs::path& path) {
  constexpr std::size_t enough = 2 << 20;
  constexpr int lines = 8;
  std::ifstream file(path, std::ios::binary);
  std::string text(enough, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  std::string_view rest(
      text.data(),
      static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  for (int i = 0; i < lines; ++i) {
    const auto end = rest.find('\n');
    if (end == rest.npos) {
      return false;
    }
    if (is_log_record(rest.substr(0, end))) {
      return true;
    }
    rest.remove_prefix(end + 1);
  }
  return false;
}

std::vector<fs::path> sorted_entries(
    const fs::path& folder,
    std::error_code& error) {
  std::vector<fs::path> entries;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    entries.push_back(at->path());
  }
  std::ranges::sort(entries);
  return entries;
}

std::vector<fs::path> logs_of(const std::vector<fs::path>& entries) {
  std::vector<fs::path> logs;
  for (const fs::path& entry : entries) {
    std::error_code ignored;
    if (entry.extension() == ".jsonl" && fs::is_regular_file(entry, ignored) &&
        looks_like_a_log(entry)) {
      logs.push_back(entry);
    }
  }
  return logs;
}

std::vector<fs::path> logs_at(const fs::path& place) {
  std::error_code error;
  const fs::file_status status = fs::status(place, error);
  if (status.type() == fs::file_type::not_found) {
    throw DataError(
        {.what = "there is no such file or folder", .where = place.string()});
  }
  if (status.type() == fs::file_type::regular) {
    return {place};
  }
  if (status.type() != fs::file_type::directory) {
    throw DataError(
        {.what = "is neither a folder nor a log", .where = place.string()});
  }
  const auto entries = sorted_entries(place, error);
  if (error) {
    throw DataError(
        {.what = "cannot list the folder",
         .where = place.string(),
         .values = error.message()});
  }
  std::vector<fs::path> logs = logs_of(entries);
  if (logs.empty()) {
    for (const fs::path& entry : entries) {
      std::error_code ignored; // a folder may be unreadable, as lost+found
      if (fs::is_directory(entry, ignored)) {
        const auto more = logs_of(sorted_entries(entry, ignored));
        logs.insert(logs.end(), more.begin(), more.end());
      }
    }
  }
  return logs;
}

/// Names for the logs. The name of a log's folder says more than the name of
/// the log, which is often the same for all runs.
std::vector<std::string> names_of(const std::vector<fs::path>& logs) {
  std::vector<fs::path> whole;
  std::map<fs::path, int> in_folder;
  for (const fs::path& log : logs) {
    std::error_code error;
    const fs::path absolute = fs::weakly_canonical(fs::absolute(log), error);
    whole.push_back(error ? log : absolute);
    ++in_folder[whole.back().parent_path()];
  }
  std::vector<std::string> names;
  std::map<std::string, int> uses;
  for (const fs::path& log : whole) {
    const fs::path folder = log.parent_path().filename();
    names.push_back(
        in_folder[log.parent_path()] == 1 && !folder.empty()
            ? folder.string()
            : log.stem().string());
    ++uses[names.back()];
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (uses[names[i]] > 1) {
      names[i] = whole[i].string();
    }
  }
  return names;
}

} // namespace

std::vector<FoundLog> find_logs(const std::vector<fs::path>& places) {
  std::vector<fs::path> paths;
  std::set<fs::path> seen;
  for (const fs::path& place : places) {
    for (const fs::path& log : logs_at(place)) {
      std::error_code error;
      if (seen.insert(fs::weakly_canonical(log, error)).second) {
        paths.push_back(log);
      }
    }
  }
  if (paths.size() > most_runs) {
    throw DataError(
        {.what = fmt::format("{} logs are too many for one page", paths.size()),
         .values = fmt::format("{} at most", most_runs),
         .remedy = "name the runs to compare"});
  }
  const auto names = names_of(paths);
  std::vector<FoundLog> logs;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    logs.push_back({names[i], paths[i]});
  }
  return logs;
}

} // namespace cairn::report
