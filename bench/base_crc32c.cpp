#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "base/crc32c_kernel.h"

namespace {

using Kernel = decltype(cairn::crc32c_detail::sliced);

void sum(benchmark::State& state, Kernel* kernel) {
  const std::vector<std::byte> bytes(static_cast<std::size_t>(state.range()));
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernel(0, bytes.data(), bytes.size()));
  }
  state.SetBytesProcessed(state.iterations() * state.range());
}

using CopyKernel = decltype(cairn::crc32c_detail::sliced_copy);

void sum_and_copy(benchmark::State& state, CopyKernel* kernel) {
  const std::vector<std::byte> from(static_cast<std::size_t>(state.range()));
  std::vector<std::byte> to(from.size());
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernel(0, to.data(), from.data(), from.size()));
  }
  state.SetBytesProcessed(state.iterations() * state.range());
}

/// The ceiling: memory read once and written once.
void copy(benchmark::State& state) {
  const std::vector<std::byte> from(static_cast<std::size_t>(state.range()));
  std::vector<std::byte> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range());
}

} // namespace

BENCHMARK_CAPTURE(sum, sliced, cairn::crc32c_detail::sliced)
    ->Range(64, 16 << 20);
BENCHMARK_CAPTURE(sum, hardware, cairn::crc32c_detail::hardware)
    ->Range(64, 16 << 20);
BENCHMARK_CAPTURE(sum_and_copy, hardware, cairn::crc32c_detail::hardware_copy)
    ->Range(64, 16 << 20);
#if defined(__aarch64__)
BENCHMARK_CAPTURE(sum, folded, cairn::crc32c_detail::folded)
    ->Range(64, 16 << 20);
BENCHMARK_CAPTURE(sum_and_copy, folded, cairn::crc32c_detail::folded_copy)
    ->Range(64, 16 << 20);
#endif
BENCHMARK(copy)->Range(64, 16 << 20);
