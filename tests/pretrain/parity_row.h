#pragma once

#include <nlohmann/json.hpp>

#include <ostream>
#include <string>
#include <vector>

namespace cairn::pretrain::parity {

/// The layout of a run over ranks.
struct Row {
  std::string name;
  std::string model = "gpt";
  int tensor = 1;
  int data = 1;
  int pipeline = 1;
  int expert = 1; ///< of the data parallel ranks
  int context = 1;
  std::string context_kind = "p2p";
  int stage = 0;
  nlohmann::json zero =
      nlohmann::json::object(); ///< zero_optimization's keys besides
  bool sequence_parallel = false;
  bool recompute = false;
  std::string schedule = "1f1b";
  std::string partition{}; ///< of the pipeline; none: the default
  int virtual_layers = 0;  ///< of each virtual stage; 0: there are none
  std::vector<std::string> flags{}; ///< more of them
  int ranks() const { return tensor * data * pipeline * context; }
};

inline void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

} // namespace cairn::pretrain::parity
