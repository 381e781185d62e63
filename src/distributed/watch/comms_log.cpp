#include "distributed/internal/comms_log.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace cairn::distributed {
namespace {

/// Our calls, each followed by the functions of PyTorch that do the same.
const std::array<std::vector<std::string_view>, 8> kinds{
    {{"all_reduce", "inference_all_reduce", "all_reduce_coalesced"},
     {"all_gather",
      "all_gather_into_tensor",
      "all_gather_base",
      "all_gather_coalesced",
      "allgather_fn"},
     {"reduce_scatter",
      "reduce_scatter_tensor",
      "reduce_scatter_base",
      "reduce_scatter_fn"},
     {"broadcast"},
     {"all_to_all", "all_to_all_single"},
     {"send", "isend"},
     {"recv", "irecv"},
     {"barrier", "monitored_barrier"}}};

std::string_view our_name(std::string_view operation) {
  for (const auto& names : kinds) {
    if (std::ranges::find(names, operation) != names.end()) {
      return names.front();
    }
  }
  return {};
}

std::string size_text(std::int64_t bytes) {
  constexpr std::array units{"B", "KB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes)
                   : fmt::format("{:.2f} {}", value, units[unit]);
}

double gigabits(double bytes, double seconds) {
  return seconds > 0 ? 8 * bytes / seconds / 1e9 : 0;
}

} // namespace

CommsLog::CommsLog(Options options) : options_(std::move(options)) {
  for (std::string& operation : options_.operations) {
    const std::string_view name = our_name(operation);
    if (name.empty()) {
      std::vector<std::string_view> known;
      for (const auto& names : kinds) {
        known.push_back(names.front());
      }
      throw ConfigError(
          {.what = "no call between ranks has this name",
           .where = "comms_logger.prof_ops",
           .values = operation,
           .remedy = fmt::format("name some of {}", fmt::join(known, ", "))});
    }
    operation = name;
  }
}

bool CommsLog::takes(std::string_view operation) const {
  return options_.all ||
      std::ranges::find(options_.operations, operation) !=
      options_.operations.end();
}

void CommsLog::add(const Call& call) {
  if (!takes(call.operation)) {
    return;
  }
  const std::string name = options_.with_site
      ? fmt::format("{} | {}", call.operation, call.site)
      : call.operation;
  {
    const std::lock_guard lock(mutex_);
    Sums& sums = calls_[name][call.bytes];
    ++sums.calls;
    if (call.seconds) {
      ++sums.timed;
      sums.sent += call.sent;
      sums.seconds += *call.seconds;
    }
  }
  if (!options_.verbose) {
    return;
  }
  if (call.seconds) {
    options_.logger.info(
        "comm op: {} | time (ms): {:.3f} | msg size: {} | algbw (Gbps): {:.4g} "
        "| busbw (Gbps): {:.4g}",
        name,
        1e3 * *call.seconds,
        size_text(call.bytes),
        gigabits(static_cast<double>(call.bytes), *call.seconds),
        gigabits(static_cast<double>(call.sent), *call.seconds));
  } else {
    options_.logger.info(
        "comm op: {} | msg size: {}",
        name,
        size_text(call.bytes));
  }
}

std::string CommsLog::summary() const {
  const std::lock_guard lock(mutex_);
  if (calls_.empty()) {
    return "no calls between ranks";
  }
  std::string text = fmt::format(
      "{:<28} {:>12} {:>8} {:>14} {:>12} {:>14} {:>14}",
      "Comm. Op",
      "Message Size",
      "Count",
      "Total (ms)",
      "Avg (ms)",
      "algbw (Gbps)",
      "busbw (Gbps)");
  for (const auto& [name, sizes] : calls_) {
    fmt::format_to(std::back_inserter(text), "\n{}", name);
    for (const auto& [bytes, sums] : sizes) {
      const auto timed = static_cast<double>(sums.timed);
      fmt::format_to(
          std::back_inserter(text),
          "\n{:<28} {:>12} {:>8}",
          "",
          size_text(bytes),
          sums.calls);
      if (sums.timed > 0) {
        fmt::format_to(
            std::back_inserter(text),
            " {:>14.2f} {:>12.3f} {:>14.4g} {:>14.4g}",
            1e3 * sums.seconds,
            1e3 * sums.seconds / timed,
            gigabits(timed * static_cast<double>(bytes), sums.seconds),
            gigabits(static_cast<double>(sums.sent), sums.seconds));
      }
    }
  }
  return text;
}

std::int64_t message_bytes(
    std::string_view operation,
    std::int64_t bytes,
    int ranks) {
  return operation == "all_gather" ? ranks * bytes : bytes;
}

} // namespace cairn::distributed
