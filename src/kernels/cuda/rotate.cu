#include "kernels/internal/cuda/rotate.h"

#include "kernels/cuda/for_each.cuh"

namespace cairn::kernels::cuda {
namespace {

/// Turns pairs of elements; pair i of all tokens and heads is pair i % half of
/// its head.
template <Element element>
struct Rotate {
  Rotation rotation;
  const void* from;
  const void* cosine;
  const void* sine;
  void* to;

  template <int width>
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t pair = i % rotation.half;
    const std::int64_t head = i / rotation.half % rotation.heads;
    const std::int64_t token = i / rotation.half / rotation.heads;
    const std::int64_t angle =
        token % rotation.positions * rotation.half + pair;
    const std::int64_t source =
        token / rotation.sequence * rotation.batch_step +
        token % rotation.sequence * rotation.token_step +
        head * rotation.head_step + pair;
    const std::int64_t target =
        (token * rotation.heads + head) * 2 * rotation.half + pair;
    Lane first[width];
    Lane second[width];
    Lane cosines[width];
    Lane sines[width];
    load(from, element, source, first);
    load(from, element, source + rotation.half, second);
    load(cosine, element, angle, cosines);
    load(sine, element, angle, sines);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const float c = cosines[k].value;
      const float s = rotation.back ? -sines[k].value : sines[k].value;
      const float x = first[k].value;
      const float y = second[k].value;
      first[k].value = x * c - y * s;
      second[k].value = y * c + x * s;
    }
    store(first, to, element, target);
    store(second, to, element, target + rotation.half);
  }
};

} // namespace

const char* rotate(
    const Rotation& rotation,
    const void* from,
    const void* cosine,
    const void* sine,
    void* to,
    void* stream) {
  const Element element = rotation.element;
  const bool fours = rotation.half % 4 == 0 && rotation.batch_step % 4 == 0 &&
      rotation.token_step % 4 == 0 && rotation.head_step % 4 == 0 &&
      aligned(from, element) && aligned(cosine, element) &&
      aligned(sine, element) && aligned(to, element);
  const char* failure = nullptr;
  with_element(element, [&](auto type) {
    failure = for_each(
        rotation.batch * rotation.sequence * rotation.heads * rotation.half,
        fours,
        Rotate<type()>{rotation, from, cosine, sine, to},
        stream);
  });
  return failure;
}

} // namespace cairn::kernels::cuda
