#include "plan/fitting.h"

#include <cmath>
#include <map>

namespace cairn::plan {

double badness(const std::vector<PublishedRow>& rows, const Setting& setting) {
  double sum = 0;
  for (const PublishedRow& row : rows) {
    if (row.iteration_seconds && row.fit && row.not_judged.empty()) {
      const Prediction each = predict(row, setting.constants, setting.shares);
      const double error = std::log1p(*each.speed_error);
      sum += std::abs(error) + 3 * error * error;
    }
  }
  return sum;
}

std::vector<Knob> knobs_of(const std::vector<PublishedRow>& rows) {
  std::vector<Knob> knobs{
      {"pieces",
       [](Setting& s) -> double& { return s.constants.pieces; },
       1,
       12},
      {"eager", [](Setting& s) -> double& { return s.constants.eager; }, 1, 6},
      {"fused", [](Setting& s) -> double& { return s.constants.fused; }, 1, 4},
      {"compiled",
       [](Setting& s) -> double& { return s.constants.compiled; },
       0.4,
       2.5},
      {"flash_share",
       [](Setting& s) -> double& { return s.constants.flash_share; },
       0.15,
       1},
      {"link_share",
       [](Setting& s) -> double& { return s.constants.link_share; },
       0.3,
       0.95},
      {"interference",
       [](Setting& s) -> double& { return s.constants.interference; },
       0,
       0.6}};
  std::map<std::string, double> gpus; // the most that a share may be
  for (const PublishedRow& row : rows) {
    if (row.fit) {
      const Gpu& gpu = row.cluster.gpu;
      gpus[chip_of(gpu)] = gpu.measured.products_16bit ? 1 : 0.9;
    }
  }
  for (const auto& [name, most] : gpus) {
    knobs.push_back(
        {name,
         [name](Setting& s) -> double& { return s.shares[name]; },
         0.3,
         most});
  }
  return knobs;
}

Setting in_the_tree(const std::vector<PublishedRow>& rows) {
  Setting setting;
  for (const PublishedRow& row : rows) {
    Gpu gpu = row.cluster.gpu;
    setting.shares[chip_of(gpu)] = fitted_share(gpu);
  }
  return setting;
}

} // namespace cairn::plan
