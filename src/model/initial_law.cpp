#include <cairn/model/parameters.h>

#include <cmath>

namespace cairn::model {

double output_deviation(double deviation, std::int64_t layers) {
  return deviation / std::sqrt(2.0 * static_cast<double>(layers));
}

} // namespace cairn::model
