#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/slices.h>

#include <cstddef>
#include <map>
#include <string>

namespace cairn::checkpoints {

/// Lazy tensors as a source of slices: of each tensor only the rows are read
/// that a slice lies in, some MiB at a time.
class LazySource final : public Source {
 public:
  explicit LazySource(NamedTensors tensors);

  bool contains(const std::string& name) const override;
  std::vector<std::int64_t> shape(const std::string& name) const override;
  at::ScalarType type(const std::string& name) const override;
  using Source::read;
  void read(const std::vector<SliceToRead>& slices) const override;

 private:
  const LazyTensor& at(const std::string& name) const;

  std::map<std::string, LazyTensor> tensors_;
};

} // namespace cairn::checkpoints
