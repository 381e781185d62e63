#pragma once

#include <cairn/base/error.h>

#include <gtest/gtest.h>

#include <string>

namespace cairn::config {

/// The message of the ConfigError that `action` throws; a test failure and ""
/// when it throws none.
template <typename Action>
std::string error_text(Action action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no ConfigError was thrown";
  return "";
}

} // namespace cairn::config
