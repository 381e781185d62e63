#pragma once

#include <exception>

namespace cairn::cli {

/// Prints why the program ends and hands it to the launcher, if there is one.
/// Returns the exit code.
int report_error(const std::exception& error);

/// Thrown in the place of an error that report_error() has been told already.
struct Reported {
  int exit_code;
};

} // namespace cairn::cli
