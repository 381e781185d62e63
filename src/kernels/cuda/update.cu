#include "kernels/cuda/for_each.cuh"
#include "kernels/cuda/update_elements.cuh"
#include "kernels/internal/cuda/cuda.h"

namespace cairn::kernels::cuda {
namespace {

template <bool has_narrow, class Formula>
const char* start_update(
    const Stretch& stretch,
    const Formula& formula,
    float* target,
    void* stream) {
  return for_each(
      stretch.count,
      takes_fours(stretch) && aligned(target, Element::fp32),
      elements_of<has_narrow>(stretch, formula, target),
      stream);
}

} // namespace

template <class Formula>
const char* update(
    const Stretch& stretch,
    const Formula& formula,
    float* target,
    void* stream) {
  return stretch.narrow.any()
      ? start_update<true>(stretch, formula, target, stream)
      : start_update<false>(stretch, formula, target, stream);
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

} // namespace cairn::kernels::cuda
