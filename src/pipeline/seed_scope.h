#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>

namespace cairn::pipeline {

/// The seed that torch::manual_seed() was given.
std::uint64_t current_seed();

/// Makes random numbers (of the CPU, where layers are built) start from `seed`
/// within the scope. After it they go on as if nothing had been drawn.
class SeedScope {
 public:
  SeedScope();
  explicit SeedScope(std::uint64_t seed);
  ~SeedScope();
  SeedScope(const SeedScope&) = delete;
  SeedScope& operator=(const SeedScope&) = delete;

 private:
  at::Generator generator_;
  at::Generator before_;
};

} // namespace cairn::pipeline
