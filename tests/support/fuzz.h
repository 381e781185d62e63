#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cairn::testing {

struct Fuzz {
  std::vector<std::string> seeds; ///< well-formed inputs, to be damaged
  /// Pieces that mean something to the parser, to be inserted anywhere.
  std::vector<std::string> pieces{};
  int runs = 10000; ///< the fixed number that a plain test run makes
  std::uint32_t seed = 1;
};

/// Hands damaged inputs to `parse`, which must return or throw a cairn::Error
/// other than InternalError; anything else fails the test and shows the input.
/// Deterministic; with CAIRN_FUZZ_SECONDS set it goes on from there for that
/// long. Returns the number of accepted inputs: all or none means that the
/// damage tests nothing.
int fuzz(
    const Fuzz& options,
    const std::function<void(const std::string&)>& parse);

} // namespace cairn::testing
