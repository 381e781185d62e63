#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace cairn::optim {

/// A file of tests/golden: a list of cases.
inline nlohmann::json golden_file(const std::string& name) {
  std::ifstream file(std::string(CAIRN_GOLDEN_DIR "/") + name);
  return nlohmann::json::parse(file);
}

} // namespace cairn::optim
