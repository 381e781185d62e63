#include "engine/step/tuning_metric.h"

#include "config/internal/tuning_metric.h"
#include "engine/internal/device_memory.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <cstdlib>
#include <string>

namespace cairn::inline engine {

TuningMetric::TuningMetric(const Job& job) : job_(job), begin_(Clock::now()) {
  if (!job.speaks()) {
    return;
  }
  const config::AutotuningConfig& asked = job.deepspeed().autotuning;
  if (const char* wanted = std::getenv(config::tuning_metric_variable)) {
    read_variable(wanted);
  } else if (asked.enabled && asked.metric_path) {
    first_ = asked.start_profile_step;
    last_ = asked.end_profile_step;
    file_ = *asked.metric_path;
  }
}

void TuningMetric::read_variable(const std::string& text) {
  const char* const end = text.data() + text.size();
  const auto dash = std::from_chars(text.data(), end, first_).ptr;
  const char* colon = dash;
  if (dash != end && *dash == '-') {
    colon = std::from_chars(dash + 1, end, last_).ptr;
  }
  if (first_ < 1 || last_ < first_ || colon == end || *colon != ':') {
    throw ConfigError(
        {.what = "is not as 3-5:FILE",
         .where = config::tuning_metric_variable,
         .values = text,
         .remedy = "`cairn tune` sets it; unset it for other trainings"});
  }
  file_ = std::string(colon + 1, end);
}

void TuningMetric::end_update(std::int64_t samples) {
  if (file_.empty() || updates_ >= last_) {
    return;
  }
  ++updates_;
  if (updates_ == first_ - 1) {
    synchronize(job_.device);
    begin_ = Clock::now();
  }
  if (updates_ >= first_) {
    samples_ += samples;
  }
  if (updates_ == last_) {
    synchronize(job_.device);
    write(std::chrono::duration<double>(Clock::now() - begin_).count());
  }
}

void TuningMetric::write(double seconds) const {
  constexpr double milliseconds = 1e3;
  const nlohmann::ordered_json metric{
      {"latency",
       milliseconds * seconds / static_cast<double>(last_ - first_ + 1)},
      {"throughput", static_cast<double>(samples_) / seconds},
      {"memory_bytes", allocated(job_.device).peak_bytes},
      {"rank", job_.world.rank()}};
  if (file_.has_parent_path()) {
    std::filesystem::create_directories(file_.parent_path());
  }
  write_file_atomically(file_, metric.dump() + "\n");
  job_.logger.info(
      "autotuning: the metric of updates {} to {} is in {}",
      first_,
      last_,
      file_.string());
}

} // namespace cairn::engine
