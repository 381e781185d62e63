// The stand-in for a GPU has no library of products: it takes none, and its
// callers use libtorch's.
#include "kernels/internal/cuda/product.h"

namespace cairn::kernels::cuda {

bool takes(const Product&) {
  return false;
}

bool would_try(const Product&, void*) {
  return false;
}

const char* multiply(const Product&, Algorithm, void*, void*) {
  return "no product is taken here";
}

std::optional<int> known_way(const std::string&) {
  return std::nullopt;
}

void try_ways(
    const std::string&,
    std::span<const std::function<void()>>,
    void*) {}

} // namespace cairn::kernels::cuda
