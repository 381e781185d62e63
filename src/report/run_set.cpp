#include "report/run_set.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::report {

bool RunSet::update() {
  std::vector<FoundLog> found = find_logs(places_);
  if (found != found_) {
    std::vector<LogReader> readers;
    for (const FoundLog& log : found) {
      const auto known =
          std::ranges::find(readers_, log.path, &LogReader::path);
      readers.push_back(
          known != readers_.end() ? std::move(*known) : LogReader(log.path));
    }
    readers_ = std::move(readers);
    found_ = std::move(found);
    changed_ = true;
  }
  for (LogReader& reader : readers_) {
    changed_ = reader.update() || changed_;
  }
  return std::exchange(changed_, false);
}

std::vector<Run> RunSet::runs() const {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    if (readers_[i].log().records > 0) {
      runs.push_back(
          {found_[i].name, found_[i].path.string(), readers_[i].log()});
    }
  }
  return runs;
}

void RunSet::refuse_empty() const {
  const auto joined = [](const auto& items, const auto& path) {
    std::string text;
    for (const auto& item : items) {
      text += (text.empty() ? "" : ", ") + path(item).string();
    }
    return text;
  };
  if (found_.empty()) {
    throw DataError(
        {.what = "no log of a run is there",
         .where = joined(places_, [](const auto& place) { return place; }),
         .remedy =
             "`cairn pretrain` writes one with --save FOLDER or --log-jsonl "
             "FILE"});
  }
  std::int64_t broken = 0;
  for (const LogReader& reader : readers_) {
    broken += reader.log().broken_lines;
  }
  throw DataError(
      {.what = broken == 0
           ? std::string("nothing is written yet")
           : fmt::format("of {} lines none is a record of a run", broken),
       .where = joined(found_, [](const FoundLog& log) { return log.path; }),
       .remedy = broken == 0
           ? "try again when the run has begun, or give --watch"
           : "`cairn pretrain` writes such a log with --log-jsonl FILE"});
}

std::string RunSet::title() const {
  return found_.size() == 1 ? found_.front().name
                            : fmt::format("{} runs", found_.size());
}

} // namespace cairn::report
