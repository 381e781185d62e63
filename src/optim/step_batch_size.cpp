#include "optim/step_batch_size.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace cairn::optim {
namespace {

[[noreturn]] void refuse(std::string what, std::string_view values) {
  throw ConfigError(
      {.what = std::move(what),
       .where = "--step-batch-size-schedule",
       .values = std::string(values),
       .remedy = "write it like \"0:768 250B:1536\""});
}

/// Reads numbers such as `250B`, `0.1K` and `768`.
std::int64_t parse_number(std::string_view text, std::string_view entry) {
  static constexpr std::string_view suffixes = "KMBT";
  double multiplier = 1;
  std::string_view digits = text;
  if (!digits.empty()) {
    const char last =
        static_cast<char>(digits.back() & ~0x20); // upper case of a letter
    const std::size_t power = suffixes.find(last);
    if (power != std::string_view::npos) {
      multiplier = std::pow(1000.0, static_cast<double>(power + 1));
      digits.remove_suffix(1);
    }
  }
  double value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
  value *= multiplier;
  // At most 2^53 samples; the test also refuses inf and nan.
  if (error != std::errc() || end != digits.data() + digits.size() ||
      !(value >= 0 && value <= 0x1p53)) {
    refuse(
        fmt::format("\"{}\" is not a number of samples or tokens", text),
        entry);
  }
  return static_cast<std::int64_t>(value);
}

} // namespace

StepBatchSize::StepBatchSize(
    std::string_view schedule,
    BatchShare share,
    std::optional<std::int64_t> sequence_length)
    : share_(share) {
  share.per_microbatch();
  if (sequence_length.value_or(1) < 1) {
    refuse(
        "the sequence length must be positive",
        fmt::format("{}", *sequence_length));
  }
  constexpr std::string_view separators = ", \t\n";
  std::size_t begin = schedule.find_first_not_of(separators);
  while (begin != std::string_view::npos) {
    const std::size_t end =
        std::min(schedule.find_first_of(separators, begin), schedule.size());
    const std::string_view entry = schedule.substr(begin, end - begin);
    begin = schedule.find_first_not_of(separators, end);
    const std::size_t colon = entry.find(':');
    if (colon == std::string_view::npos) {
      refuse("an entry must be THRESHOLD:BATCH_SIZE", entry);
    }
    const Step step{
        parse_number(entry.substr(0, colon), entry) /
            sequence_length.value_or(1),
        parse_number(entry.substr(colon + 1), entry)};
    if (step.global < 1) {
      refuse("a batch size must be positive", entry);
    }
    steps_.push_back(step);
  }
  std::stable_sort(
      steps_.begin(),
      steps_.end(),
      [](const Step& a, const Step& b) {
        return a.from_samples < b.from_samples;
      });
  if (steps_.empty() || steps_[0].from_samples != 0) {
    refuse("the first threshold must be 0", schedule);
  }
  const auto same = std::adjacent_find(
      steps_.begin(),
      steps_.end(),
      [](const Step& a, const Step& b) {
        return a.from_samples == b.from_samples;
      });
  if (same != steps_.end()) {
    refuse(
        fmt::format("two entries start at sample {}", same->from_samples),
        schedule);
  }
}

BatchSize StepBatchSize::at(std::int64_t consumed_samples) const {
  std::int64_t global = steps_[0].global;
  for (const Step& step : steps_) {
    if (consumed_samples >= step.from_samples) {
      global = step.global;
    }
  }
  return share_.whole(global);
}

} // namespace cairn::optim
