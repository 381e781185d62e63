#pragma once

#include "report/chart_plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::report {

struct PageOptions {
  double made = 0;           ///< seconds since 1970
  double refresh = 0;        ///< seconds between looks; 0: never changes
  std::uint64_t version = 0; ///< of what is shown, while it changes
};

/// What the page's script draws, as JSON that may stand inside a <script>
/// element: no `<`, `>` or `&` in it whatever the runs say.
std::string page_data(const std::vector<Run>& runs, const PageOptions& options);

} // namespace cairn::report
