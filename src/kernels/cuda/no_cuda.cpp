#include "kernels/formulas.h"
#include "kernels/internal/cuda/cuda.h"

namespace cairn::kernels::cuda {
namespace {

constexpr const char* missing =
    "this program has no GPU kernels; configure with -DCAIRN_CUDA=ON and link "
    "cairn::gpu";

} // namespace

template <class Formula>
const char* update(const Stretch&, const Formula&, float*, void*) {
  return missing;
}

template const char* update(const Stretch&, const Adagrad&, float*, void*);
template const char* update(const Stretch&, const Adam<false>&, float*, void*);
template const char* update(const Stretch&, const Adam<true>&, float*, void*);
template const char* update(const Stretch&, const Descent&, float*, void*);
template const char* update(
    const Stretch&,
    const LambDirection&,
    float*,
    void*);
template const char* update(const Stretch&, const Lion&, float*, void*);
template const char* update(const Stretch&, const MuonMomentum&, float*, void*);
template const char* update(const Stretch&, const Sgd&, float*, void*);

const char* sum_of_squares(
    const void*,
    Element,
    std::int64_t,
    double*,
    double*,
    void*) {
  return missing;
}

const char* first_non_finite(
    const void*,
    Element,
    std::int64_t,
    std::int64_t*,
    void*) {
  return missing;
}

const char* accumulate(
    float*,
    const void*,
    Element,
    std::int64_t,
    Accumulation,
    void*) {
  return missing;
}

const char* convert(const void*, Element, void*, Element, std::int64_t, void*) {
  return missing;
}

} // namespace cairn::kernels::cuda
