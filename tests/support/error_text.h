#pragma once

#include <cairn/base/error.h>

#include <gtest/gtest.h>

#include <string>

namespace cairn {

/// The message of the error that `action` throws; a test failure and "" when
/// it throws none.
template <typename Expected = ConfigError, typename Action>
std::string error_text(const Action& action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

} // namespace cairn
