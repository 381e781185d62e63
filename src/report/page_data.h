#pragma once

#include "report/chart_plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::report {

struct PageOptions {
  double made = 0;           ///< seconds since 1970
  double refresh = 0;        ///< seconds between updates; 0: none
  std::uint64_t version = 0; ///< of the content, for live pages
};

/// The data that the page's script draws, as JSON for a <script> element: it
/// contains no `<`, `>` or `&`, whatever the runs contain.
std::string page_data(const std::vector<Run>& runs, const PageOptions& options);

} // namespace cairn::report
