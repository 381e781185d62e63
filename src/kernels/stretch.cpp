#include <cairn/kernels/stretch.h>

#include <algorithm>

namespace cairn::kernels {

Stretch part_of(
    const Stretch& stretch,
    std::int64_t offset,
    std::int64_t count) {
  Stretch part = stretch;
  part.count = std::clamp<std::int64_t>(
      stretch.count - offset,
      0,
      std::max<std::int64_t>(count, 0));
  if (part.weights != nullptr) {
    part.weights += offset;
  }
  if (part.narrow.remainders != nullptr) {
    part.narrow.remainders += offset;
  }
  for (std::uint16_t*& state : part.narrow.states) {
    if (state != nullptr) {
      state += offset;
    }
  }
  part.gradients = static_cast<const char*>(part.gradients) +
      offset * bytes_of(part.gradient_type);
  if (part.copy != nullptr) {
    part.copy =
        static_cast<char*>(part.copy) + offset * bytes_of(part.copy_type);
  }
  for (float*& state : part.states) {
    if (state != nullptr) {
      state += offset;
    }
  }
  return part;
}

} // namespace cairn::kernels
