#include <benchmark/benchmark.h>
#include <cairn/base/counter_random.h>

#include <cstdint>
#include <random>
#include <vector>

namespace {

constexpr std::size_t count = 1 << 16;

void fill_normal(benchmark::State& state) {
  const cairn::CounterRandom random(1, "weight");
  std::vector<float> out(count);
  for (auto _ : state) {
    random.fill_normal(0, out);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * std::int64_t{count});
}

void fill_uniform(benchmark::State& state) {
  const cairn::CounterRandom random(1, "weight");
  std::vector<float> out(count);
  for (auto _ : state) {
    random.fill_uniform(0, out);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * std::int64_t{count});
}

/// The peer: the standard library's, which no two libraries agree on.
void standard_normal(benchmark::State& state) {
  std::mt19937 bits(1);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (auto _ : state) {
    for (float& value : out) {
      value = normal(bits);
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * std::int64_t{count});
}

} // namespace

BENCHMARK(fill_normal);
BENCHMARK(fill_uniform);
BENCHMARK(standard_normal);
