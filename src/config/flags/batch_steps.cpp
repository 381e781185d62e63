#include "config/internal/batch_steps.h"

#include "config/flags/flag_parser.h"
#include "config/table/number_text.h"
#include "config/table/printable.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::config {

namespace {

constexpr const char* steps_flag = "--step-batch-size-schedule";

[[noreturn]] void refuse_step(std::string_view entry, std::string_view what) {
  throw ConfigError(
      {.what = std::string(what),
       .where = steps_flag,
       .values = fmt::format("\"{}\"", printable(entry)),
       .remedy =
           "write tokens and batches, such as \"0:16 2.4B:320 12B:1536\""});
}

/// A whole number with K, M, B or T behind it, as in "2.4B".
std::optional<std::int64_t> counted(std::string_view text) {
  double unit = 1;
  if (!text.empty()) {
    constexpr std::string_view units = "KMBT";
    const char last = text.back();
    const char upper =
        last >= 'a' && last <= 'z' ? static_cast<char>(last - 'a' + 'A') : last;
    if (const auto place = units.find(upper); place != units.npos) {
      unit = std::pow(1000.0, static_cast<double>(place + 1));
      text.remove_suffix(1);
    }
  }
  const auto number = parse_real(text);
  constexpr double most = 9e15; // doubles count no further one by one
  if (!number || !(*number >= 0) || !(*number * unit <= most)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*number * unit);
}

} // namespace

std::vector<BatchStep> batch_steps(const Flags& flags) {
  const auto length = flags.data.seq_length ? flags.data.seq_length
                                            : flags.data.encoder_seq_length;
  std::vector<BatchStep> steps;
  for (std::string_view words : flags.training.batch_size_steps) {
    while (!words.empty()) {
      const std::size_t end = words.find_first_of(" ,");
      const std::string_view entry = words.substr(0, end);
      words.remove_prefix(end == words.npos ? words.size() : end + 1);
      if (entry.empty()) {
        continue;
      }
      const std::size_t colon = entry.find(':');
      if (colon == entry.npos) {
        refuse_step(entry, "no batch stands behind a colon");
      }
      const auto tokens = counted(entry.substr(0, colon));
      const auto batch = counted(entry.substr(colon + 1));
      if (!tokens || !batch || *batch < 1) {
        refuse_step(entry, "no number of tokens with a batch");
      }
      if (!length || *length < 1) {
        throw ConfigError(
            {.what = "lengths in tokens need --seq-length",
             .where = steps_flag});
      }
      steps.push_back({.samples = *tokens / *length, .batch = *batch});
      if (steps.size() == 1 && steps.front().samples != 0) {
        refuse_step(entry, "the first batch must begin at 0");
      }
      if (steps.size() > 1 &&
          steps.back().samples <= steps[steps.size() - 2].samples) {
        refuse_step(entry, "must begin at least a sample after the one before");
      }
    }
  }
  return steps;
}

void take_last_batch(ParsedFlags& parsed) {
  const std::vector<BatchStep> steps = batch_steps(parsed.flags);
  if (steps.empty()) {
    return;
  }
  auto& batch = parsed.flags.training.global_batch_size;
  const std::int64_t last = steps.back().batch;
  if (batch && *batch != last) {
    throw ConfigError(
        {.what = fmt::format(
             "ends at a batch of {}, but --global-batch-size is {}",
             last,
             *batch),
         .where = steps_flag,
         .remedy = "make them equal, or leave out --global-batch-size"});
  }
  batch = last;
  parsed.given.try_emplace(
      "--global-batch-size",
      Place{.file = "", .position = {}, .name = steps_flag});
}

} // namespace cairn::config
