#pragma once

#include <cstdint>
#include <vector>

namespace cairn::pretrain {

/// Tokens as a function of samples, where samples of some steps are longer
/// than those of others.
class TokenCount {
 public:
  /// Counts samples that all have this length.
  explicit TokenCount(std::int64_t length = 0)
      : parts_({{.samples = 0, .tokens = 0, .length = length}}) {}
  /// Counts from `samples` samples, which had `tokens` tokens, on.
  TokenCount(std::int64_t samples, std::int64_t tokens, std::int64_t length)
      : parts_({{.samples = samples, .tokens = tokens, .length = length}}) {}

  /// Sets another length for the samples after the first `samples`, which must
  /// be more than at the last change.
  void change(std::int64_t samples, std::int64_t length);

  std::int64_t at(std::int64_t samples) const;
  std::int64_t longest() const;

  /// The samples after the first `samples`; the first part also holds before
  /// it.
  struct Part {
    std::int64_t samples;
    std::int64_t tokens; ///< tokens of all samples before it
    std::int64_t length;
  };
  const std::vector<Part>& parts() const { return parts_; }

 private:
  std::vector<Part> parts_; ///< at least one
};

} // namespace cairn::pretrain
