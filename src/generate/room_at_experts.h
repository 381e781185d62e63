#pragma once

#include <cairn/nn/mixture.h>

#include <cstddef>
#include <span>
#include <vector>

namespace cairn::generate {

/// Gives the experts room for every token, until it is destroyed. A token's
/// scores then depend on its own text alone, and on nothing behind it.
class RoomAtExperts {
 public:
  explicit RoomAtExperts(std::span<nn::Mixture* const> mixtures)
      : mixtures_(mixtures) {
    for (nn::Mixture* mixture : mixtures_) {
      before_.push_back(mixture->drops_none_in_evaluation());
      mixture->drop_none_in_evaluation(true);
    }
  }
  ~RoomAtExperts() {
    for (std::size_t i = 0; i < mixtures_.size(); ++i) {
      mixtures_[i]->drop_none_in_evaluation(before_[i]);
    }
  }
  RoomAtExperts(const RoomAtExperts&) = delete;
  RoomAtExperts& operator=(const RoomAtExperts&) = delete;

 private:
  std::span<nn::Mixture* const> mixtures_;
  std::vector<bool> before_;
};

} // namespace cairn::generate
