#include "cli/program/error_report.h"

#include "base/internal/error_handover.h"
#include "base/internal/terminal_safe.h"
#include "cli/program/command.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <cstdio>
#include <string_view>

namespace cairn::cli {

int report_error(const std::exception& error) {
  // A bug in Cairn itself, which no flag can mend.
  const bool own_mistake =
      dynamic_cast<const InternalError*>(&error) != nullptr ||
      dynamic_cast<const UsageError*>(&error) != nullptr;
  // The text may quote a file.
  fmt::print(
      stderr,
      "cairn: {}{}\n",
      own_mistake ? "internal error, please report it: " : "",
      terminal_safe(error.what()));
  hand_over_error(
      {.of_another_rank = dynamic_cast<const CommError*>(&error) != nullptr,
       .text = error.what()});
  return dynamic_cast<const ConfigError*>(&error) != nullptr ? exit_bad_usage
                                                             : exit_failure;
}

} // namespace cairn::cli
