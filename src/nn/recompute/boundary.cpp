#include "nn/recompute/boundary.h"

#include "nn/recompute/devices_in_use.h"

namespace cairn::nn {

Boundary::Boundary(const CheckpointOptions& options, std::string_view pass)
    : options_(options), pass_(pass) {
  wait();
  start_ = std::chrono::steady_clock::now();
}

void Boundary::end() const {
  wait();
  if (options_.profile) {
    const std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - start_;
    options_.profile->info(
        "activation checkpoint: {} took {:.3f} ms",
        pass_,
        took.count());
  }
}

void Boundary::wait() const {
  if (options_.synchronize || options_.profile) {
    synchronize_devices();
  }
}

} // namespace cairn::nn
