#pragma once

#include <cairn/config/node.h>

#include <string>

namespace cairn::config {

/// The place where a setting was given: a file, or the command line.
struct Place {
  std::string file; ///< empty for a flag
  Position position;
  std::string name; ///< "zero_optimization.stage" or "--zero-stage"

  /// `ds.json:7:5 (zero_optimization.stage)`, or just `--zero-stage`.
  std::string text() const;
};

} // namespace cairn::config
