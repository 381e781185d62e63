#include "../best_seconds.h"
#include "generate/decoder_weights.h"
#include "kernels/internal/in_parallel.h"

#include <ATen/Parallel.h>
#include <cairn/generate/text_batch.h>
#include <cairn/model/presets.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// generate_bench [fp32] [bf16] [int8] [whole-texts]: GPT-2 124M with random
// weights, greedy, a prompt of 32 tokens and 64 tokens after it, on the CPU.
// Prints a line for each kind of weights and size of batch: tokens in a second
// after the prompt, and for one text the part of the machine's bound, which is
// the time for reading as many bytes as a token reads weights, measured by the
// same threads just before and after.

namespace {

using namespace cairn; // NOLINT

constexpr std::int64_t prompt_tokens = 32;
constexpr std::int64_t new_tokens = 64;

/// Seconds of a plain read of `bytes` bytes by libtorch's threads, each of
/// which reads one stretch from its beginning to its end, or `streams` of them
/// at a time.
double read_seconds(
    const std::vector<std::uint64_t>& memory,
    std::size_t bytes,
    std::int64_t streams) {
  using Vector = std::uint64_t __attribute__((vector_size(64)));
  constexpr auto words = static_cast<std::int64_t>(sizeof(Vector) / 8);
  constexpr std::int64_t stretch = 1 << 16; // words
  const auto count = static_cast<std::int64_t>(bytes) / 8 / stretch;
  std::uint64_t all = 0;
  const double seconds = bench::best_seconds(0.5, [&] {
    kernels::in_parallel(count, [&](auto begin, auto end) {
      Vector sum{};
      for (std::int64_t block = begin; block < end; ++block) {
        const std::uint64_t* from = memory.data() + block * stretch;
        const std::int64_t each = stretch / streams;
        for (std::int64_t i = 0; i < each; i += words) {
          for (std::int64_t j = 0; j < streams; ++j) {
            Vector value;
            std::memcpy(&value, from + j * each + i, sizeof value);
            sum += value;
          }
        }
      }
      __atomic_fetch_add(&all, sum[0], __ATOMIC_RELAXED);
    });
  });
  return all == 1 ? 0 : seconds; // the sum is used, so it is computed
}

/// The quicker of two ways to read.
double read_seconds(
    const std::vector<std::uint64_t>& memory,
    std::size_t bytes) {
  return std::min(
      read_seconds(memory, bytes, 1),
      read_seconds(memory, bytes, 8));
}

struct Speed {
  double prompt = 0; ///< tokens of prompts in a second
  double decode = 0; ///< tokens after them in a second, of all texts
};

Speed measure(
    const std::shared_ptr<models::Transformer>& model,
    const generate::TextBatchOptions& options,
    std::int64_t texts) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  generate::TextBatch batch(model, options);
  Speed best;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (std::int64_t i = 0; i < texts; ++i) {
      generate::TextRequest request{
          .prompt = {},
          .sampling = {.greedy = true},
          .most_tokens = new_tokens};
      for (std::int64_t j = 0; j < prompt_tokens; ++j) {
        request.prompt.push_back((7919 * (i + j) + 13) % 50257);
      }
      batch.add(std::move(request));
    }
    const auto start = Clock::now();
    std::set<std::uint64_t> begun;
    while (std::ssize(begun) < texts) {
      for (const auto& growth : batch.step()) {
        begun.insert(growth.text);
      }
    }
    const auto middle = Clock::now();
    std::int64_t tokens = 0;
    while (!batch.empty()) {
      for (const auto& growth : batch.step()) {
        tokens += static_cast<std::int64_t>(growth.tokens.size());
      }
    }
    const auto end = Clock::now();
    best.prompt = std::max(
        best.prompt,
        static_cast<double>(texts * prompt_tokens) / seconds(middle - start));
    best.decode = std::max(
        best.decode,
        static_cast<double>(tokens) / seconds(end - middle));
  }
  return best;
}

} // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> chosen(argv + 1, argv + argc);
  if (const char* threads = std::getenv("OMP_NUM_THREADS")) {
    at::set_num_threads(std::atoi(threads));
  }
  const auto model = models::make_model(model::gpt_description(
      {.layers = 12,
       .hidden = 768,
       .heads = 12,
       .sequence = 1024,
       .vocabulary = 50257,
       .padded_vocabulary = 50257}));
  struct Kind {
    const char* name;
    std::optional<generate::WeightType> type;
    bool recompute = false;
  };
  const std::vector<Kind> kinds{
      {"fp32", generate::WeightType::fp32},
      {"bf16", generate::WeightType::bf16},
      {"int8", generate::WeightType::int8},
      {"whole-texts", std::nullopt, true}};
  fmt::print(
      "{} threads\n{:<18} {:>5} {:>14} {:>14} {:>14} {:>8}\n",
      at::get_num_threads(),
      "weights",
      "texts",
      "prompt tok/s",
      "new tok/s",
      "bound tok/s",
      "of it");
  for (const Kind& kind : kinds) {
    if (!chosen.empty() &&
        std::ranges::find(chosen, kind.name) == chosen.end()) {
      continue;
    }
    generate::TextBatchOptions options;
    options.weights = kind.type;
    options.recompute = kind.recompute;
    const auto bytes = static_cast<std::size_t>(
        generate::DecoderWeights::of(*model, kind.type).bytes_per_token());
    const std::vector<std::uint64_t> memory(bytes / sizeof(std::uint64_t), 3);
    for (const std::int64_t texts : {1, 8, 64}) {
      if (kind.recompute && texts > 1) {
        continue;
      }
      const double before = read_seconds(memory, bytes);
      const Speed speed = measure(model, options, texts);
      const double after = read_seconds(memory, bytes);
      fmt::print(
          "{:<18} {:>5} {:>14.1f} {:>14.1f}",
          kind.name,
          texts,
          speed.prompt,
          speed.decode);
      if (texts == 1) {
        const double bound = 1 / std::min(before, after);
        fmt::print(" {:>14.1f} {:>8.2f}", bound, speed.decode / bound);
      }
      fmt::print("\n");
      std::fflush(stdout);
    }
  }
}
