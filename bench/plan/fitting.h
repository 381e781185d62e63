#pragma once

#include "plan/published.h"

#include <functional>
#include <string>
#include <vector>

// What the fit of the planner's constants makes small, and what it moves.

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

/// Those of the model, and the speed of products of each chip that a fitted row
/// ran on.
std::vector<Knob> knobs_of(const std::vector<PublishedRow>& rows);

/// The constants and speeds in the tree.
Setting in_the_tree(const std::vector<PublishedRow>& rows);

} // namespace cairn::plan
