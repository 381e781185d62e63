#pragma once

#include "plan/published.h"

#include <functional>
#include <string>
#include <vector>

// The fit of the planner's constants: the loss that it makes small, and the
// numbers that it changes to do so.

namespace cairn::plan {

struct Setting {
  Constants constants;
  MatmulShares shares;
};

/// The loss that the fit makes small: large errors count more than small ones.
double badness(const std::vector<PublishedRow>& rows, const Setting& setting);

/// A constant that the fit moves within its limits.
struct Knob {
  std::string name;
  std::function<double&(Setting&)> value;
  double least, most;
};

/// Returns the knobs of a fit: the planner's constants, and for each chip that
/// a fitted row ran on the speed of its products.
std::vector<Knob> knobs_of(const std::vector<PublishedRow>& rows);

/// The constants and speeds in the tree.
Setting in_the_tree(const std::vector<PublishedRow>& rows);

} // namespace cairn::plan
