#pragma once

#include <cstdint>
#include <vector>

namespace cairn::pretrain {

/// Tokens as a function of samples, where samples of some steps are longer
/// than those of others.
class TokenCount {
 public:
  /// All samples are so long, …
  explicit TokenCount(std::int64_t length = 0)
      : parts_({{.samples = 0, .tokens = 0, .length = length}}) {}
  /// … or from where so many tokens are counted for so many samples.
  TokenCount(std::int64_t samples, std::int64_t tokens, std::int64_t length)
      : parts_({{.samples = samples, .tokens = tokens, .length = length}}) {}

  /// Samples after so many, which must be more than those of the last change,
  /// have another length.
  void change(std::int64_t samples, std::int64_t length);

  std::int64_t at(std::int64_t samples) const;
  std::int64_t longest() const;

  /// Of samples behind the first `samples`; the first part also before it.
  struct Part {
    std::int64_t samples;
    std::int64_t tokens; ///< of all samples before it
    std::int64_t length;
  };
  const std::vector<Part>& parts() const { return parts_; }

 private:
  std::vector<Part> parts_; ///< at least one
};

} // namespace cairn::pretrain
