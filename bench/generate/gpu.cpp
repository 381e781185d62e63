#include "generate/device_stream.h"
#include "generate/gpu_decoder.h"
#include "kernels/internal/cuda/few_rows.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <cairn/generate/text_batch.h>
#include <cairn/model/presets.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

// generate_gpu_bench [MODEL]… [--plain]: GPT-2 with random weights in bf16 on
// one GPU; MODEL is 124M or 1.5B (both). Prints tables in Markdown:
//
//   the time of a step that computes one token of each of 1, 8 and 64 texts,
//   greedy, and the part of the bound: the time for reading the weights as fast
//   as the GPU copies in the same run;
//   the same without each of the things that make it fast;
//   tokens of prompts in a second, beside the model's own forward pass;
//   whole texts through TextBatch, greedy and with --top_p 0.9;
//   and the time of every kernel of a step.
//
// With --plain kernels never begin before others have ended.

namespace {

using namespace cairn; // NOLINT
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void finish() {
  at::accelerator::synchronizeDevice(0);
}

at::Device gpu() {
  return {at::kCUDA, 0};
}

/// Bytes that a copy reads and writes in a second.
double copy_rate() {
  const at::Tensor from = at::full(
      {std::int64_t{1} << 30},
      3,
      at::TensorOptions(gpu()).dtype(at::kShort));
  at::Tensor to = at::empty_like(from);
  double best = 1e9;
  for (int i = 0; i < 8; ++i) {
    finish();
    const auto start = Clock::now();
    for (int k = 0; k < 4; ++k) {
      to.copy_(from);
    }
    finish();
    best = std::min(best, since(start) / 4);
  }
  return 2.0 * static_cast<double>(from.nbytes()) / best;
}

std::shared_ptr<models::Transformer> make_model(const std::string& name) {
  const bool large = name == "1.5B";
  models::ModelOptions options;
  options.dtype = at::kBFloat16;
  options.device = gpu();
  options.seed.reset();
  auto model = models::make_model(
      model::gpt_description(
          {.layers = large ? 48 : 12,
           .hidden = large ? 1600 : 768,
           .heads = large ? 25 : 12,
           .sequence = 1024,
           .vocabulary = 50257,
           .padded_vocabulary = 50304}),
      options);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model->parameters()) {
    parameter.normal_(0, 0.02);
  }
  model->eval();
  return model;
}

generate::TextBatchOptions batch_options(std::int64_t texts) {
  generate::TextBatchOptions options;
  options.most_texts = texts;
  options.cache_tokens = texts * 1024;
  return options;
}

std::vector<std::int64_t> text_of(std::int64_t number, std::int64_t length) {
  std::vector<std::int64_t> text;
  for (std::int64_t i = 0; i < length; ++i) {
    text.push_back((7919 * (number + i) + 13) % 50257);
  }
  return text;
}

/// Texts that grow by a token in each step.
class Steps {
 public:
  Steps(
      const models::Transformer& model,
      std::int64_t texts,
      std::int64_t prompt,
      const generate::GpuStepOptions& options)
      : decoder_(model, at::kBFloat16, batch_options(texts), options),
        length_(prompt) {
    for (std::int64_t i = 0; i < texts; ++i) {
      texts_.push_back(text_of(i, 1024));
    }
    begin_ = Clock::now();
    compute(0);
    prompt_seconds_ = since(begin_);
  }

  /// Computes a token of each text.
  void step() {
    ++length_;
    compute(length_ - 1);
  }

  /// Seconds of a step: the median.
  double seconds(int steps) {
    for (int i = 0; i < 4; ++i) {
      step();
    }
    std::vector<double> times;
    for (int i = 0; i < steps; ++i) {
      const auto start = Clock::now();
      step();
      times.push_back(since(start));
    }
    std::ranges::sort(times);
    return times[times.size() / 2];
  }

  double prompt_seconds() const { return prompt_seconds_; }
  double bytes() const {
    return static_cast<double>(decoder_.weights().bytes_per_token());
  }

  /// Seconds of the prompts, once more.
  double read_again() {
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      decoder_.release(i);
    }
    const auto start = Clock::now();
    compute(0);
    return since(start);
  }

 private:
  void compute(std::int64_t begin) {
    std::vector<generate::Piece> pieces;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      decoder_.reserve(i, length_);
      pieces.push_back(
          {.place = i,
           .text =
               std::span(texts_[i]).first(static_cast<std::size_t>(length_)),
           .begin = begin,
           .scored = 1,
           .peak_of = 50257});
    }
    decoder_.compute(pieces);
  }

  generate::GpuDecoder decoder_;
  std::int64_t length_;
  std::vector<std::vector<std::int64_t>> texts_;
  Clock::time_point begin_;
  double prompt_seconds_ = 0;
};

constexpr std::int64_t most = std::int64_t{1} << 40;

void print_steps(
    const models::Transformer& model,
    double copied,
    const generate::GpuStepOptions& usual) {
  struct Variant {
    const char* name;
    std::int64_t texts;
    generate::GpuStepOptions options;
    std::int64_t prompt = 32;
  };
  generate::GpuStepOptions parts = usual;
  parts.whole_from = generate::never;
  generate::GpuStepOptions whole = usual;
  whole.whole_from = 0;
  generate::GpuStepOptions whole_slices = whole;
  whole_slices.shares_units = false;
  const auto with = [&](const auto& change) {
    generate::GpuStepOptions options = parts;
    change(options);
    return options;
  };
  const std::vector<Variant> variants{
      {"as it is", 1, usual},
      {"a graph of kernels", 1, parts},
      {"a single kernel", 1, whole},
      {"a single kernel whose warps share slices", 1, whole_slices},
      {"all weights to registers", 1, with([](auto& o) {
         o.copied_from = most;
       })},
      {"all weights by copies", 1, with([](auto& o) { o.copied_from = 0; })},
      {"rings of 40 KB", 1, with([](auto& o) { o.copied_bytes = 60 << 10; })},
      {"rings of 56 KB", 1, with([](auto& o) { o.copied_bytes = 74 << 10; })},
      {"rings of 200 KB", 1, with([](auto& o) { o.copied_bytes = 226 << 10; })},
      {"no kernel begins early", 1, with([](auto& o) { o.early = false; })},
      {"no CUDA graph", 1, with([](auto& o) { o.records = false; })},
      {"cuBLASLt's products", 1, with([](auto& o) { o.few_rows = 0; })},
      {"as it is, after 900 tokens", 1, usual, 900},
      {"a graph of kernels, after 900 tokens", 1, parts, 900},
      {"a single kernel, after 900 tokens", 1, whole, 900},
      {"a single kernel whose warps share slices, after 900",
       1,
       whole_slices,
       900},
      {"as it is", 2, usual},
      {"as it is", 4, usual},
      {"as it is", 8, usual},
      {"all weights to registers", 8, with([](auto& o) {
         o.copied_from = most;
       })},
      {"cuBLASLt's products", 8, with([](auto& o) { o.few_rows = 0; })},
      {"as it is", 16, usual},
      {"as it is", 64, usual},
      {"no kernel begins early", 64, with([](auto& o) { o.early = false; })},
      {"as it is, after 900 tokens", 64, usual, 900}};
  fmt::print(
      "| step | texts | ms | tokens/s | of the copy bound | of 4.8 TB/s |\n"
      "|---|---:|---:|---:|---:|---:|\n");
  for (const Variant& each : variants) {
    Steps steps(model, each.texts, each.prompt, each.options);
    const double seconds = steps.seconds(40);
    fmt::print(
        "| {} | {} | {:.3f} | {:.0f} | {:.2f} | {:.2f} |\n",
        each.name,
        each.texts,
        seconds * 1e3,
        static_cast<double>(each.texts) / seconds,
        steps.bytes() / copied / seconds,
        steps.bytes() / 4.8e12 / seconds);
    std::fflush(stdout);
  }
}

void print_prompts(
    models::Transformer& model,
    const generate::GpuStepOptions& usual) {
  fmt::print(
      "\n| prompts | ms | tokens/s | forward pass, ms | part of its speed |\n"
      "|---|---:|---:|---:|---:|\n");
  for (const auto& [texts, length] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{
           {8, 512},
           {4, 1000},
           {1, 1000},
           {64, 32}}) {
    Steps steps(model, texts, length, usual);
    double own = 1e9;
    for (int i = 0; i < 5; ++i) {
      own = std::min(own, steps.read_again());
    }
    const at::NoGradGuard no_grad;
    models::ModelInput input{
        .tokens = at::randint(
            50257,
            {texts, length},
            at::TensorOptions(gpu()).dtype(at::kLong))};
    input.logits_at = at::full({texts}, length - 1, input.tokens.options());
    double forward = 1e9;
    for (int i = 0; i < 6; ++i) {
      finish();
      const auto start = Clock::now();
      const auto output = model.forward(input);
      finish();
      forward = std::min(forward, since(start));
    }
    fmt::print(
        "| {} x {} | {:.2f} | {:.0f} | {:.2f} | {:.2f} |\n",
        texts,
        length,
        own * 1e3,
        static_cast<double>(texts * length) / own,
        forward * 1e3,
        forward / own);
    std::fflush(stdout);
  }
}

void print_batches(const std::shared_ptr<models::Transformer>& model) {
  fmt::print("\n| whole texts, 32 + 100 tokens | texts | new tokens/s |\n"
             "|---|---:|---:|\n");
  for (const bool greedy : {true, false}) {
    for (const std::int64_t texts : {1, 64}) {
      generate::TextBatch batch(model, batch_options(texts));
      double best = 0;
      for (int repeat = 0; repeat < 2; ++repeat) {
        for (std::int64_t i = 0; i < texts; ++i) {
          generate::TextRequest request{
              .prompt = text_of(i, 32),
              .most_tokens = 100};
          request.sampling.greedy = greedy;
          request.sampling.top_p = greedy ? 0 : 0.9;
          request.number = static_cast<std::uint64_t>(i);
          batch.add(std::move(request));
        }
        batch.step(); // the prompts
        const auto start = Clock::now();
        std::int64_t tokens = 0;
        while (!batch.empty()) {
          for (const auto& growth : batch.step()) {
            tokens += std::ssize(growth.tokens);
          }
        }
        best = std::max(best, static_cast<double>(tokens) / since(start));
      }
      fmt::print(
          "| {} | {} | {:.0f} |\n",
          greedy ? "greedy" : "top_p 0.9",
          texts,
          best);
      std::fflush(stdout);
    }
  }
}

/// The time of one product of one row in a graph of 240 that depend on each
/// other: what a kernel takes besides reading weights, which are the same for
/// all of them and stay in the GPU's cache.
void print_latencies() {
  struct Chain {
    const char* name;
    std::int64_t depth;
    std::int64_t outputs;
    bool norm;
  };
  const auto options = at::TensorOptions(gpu()).dtype(at::kBFloat16);
  const auto stream = generate::make_stream(gpu());
  fmt::print("\n| product of a chain, us each | registers | waiting | copies | "
             "waiting |\n|---|---:|---:|---:|---:|\n");
  for (const Chain& each :
       {Chain{"64 x 64", 64, 64, false},
        Chain{"1600 x 8", 1600, 8, false},
        Chain{"1600 x 8 with a norm", 1600, 8, true},
        Chain{"1600 x 1600", 1600, 1600, false},
        Chain{"1600 x 1600 with a norm", 1600, 1600, true},
        Chain{"1600 x 6400 with a norm", 1600, 6400, true},
        Chain{"6400 x 1600", 6400, 1600, false}}) {
    at::Tensor x = at::empty({8192}, options).normal_(0, 1);
    at::Tensor y = at::empty({8192}, options).normal_(0, 1);
    const at::Tensor gamma = at::full({each.depth}, 1, options);
    const at::Tensor weight =
        at::empty({each.outputs, each.depth}, options).normal_(0, 0.02);
    fmt::print("| {} |", each.name);
    for (const bool by_copies : {false, true}) {
      for (const auto start :
           {kernels::cuda::Start::early, kernels::cuda::Start::after}) {
        const auto chain = [&] {
          for (int i = 0; i < 240; ++i) {
            const char* failure = kernels::cuda::multiply_few_rows(
                {.rows = 1,
                 .depth = each.depth,
                 .outputs = each.outputs,
                 .x = i % 2 == 0 ? x.data_ptr() : y.data_ptr(),
                 .norm = {.gamma = each.norm ? gamma.data_ptr() : nullptr},
                 .weight = weight.data_ptr(),
                 .y = i % 2 == 0 ? y.data_ptr() : x.data_ptr(),
                 .by_copies = by_copies},
                start,
                stream->handle());
            if (failure != nullptr) {
              fmt::print("{}\n", failure);
            }
          }
        };
        double best = 1e9;
        stream->run([&] {
          chain();
          const auto graph = stream->record(chain);
          for (int i = 0; i < 5; ++i) {
            stream->wait();
            const auto begin = Clock::now();
            graph->repeat();
            stream->wait();
            best = std::min(best, since(begin));
          }
        });
        fmt::print(" {:.2f} |", best * 1e6 / 240);
      }
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
}

/// A kernel's name without what all names have.
std::string short_name(std::string name) {
  for (const std::string each :
       {"void ",
        "cairn::kernels::cuda::",
        "(anonymous namespace)::",
        "<unnamed>::",
        "kernels::"}) {
    for (auto at = name.find(each); at != std::string::npos;
         at = name.find(each)) {
      name.erase(at, each.size());
    }
  }
  return name.substr(0, 70);
}

template <class Work>
void print_kernels(const std::string& what, const Work& work) {
  namespace profiler = torch::autograd::profiler;
  using torch::profiler::impl::ActivityType;
  constexpr int count = 4;
  const torch::profiler::impl::ProfilerConfig config(
      torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities{
      ActivityType::CPU,
      ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  for (int i = 0; i < count; ++i) {
    work();
  }
  finish();
  const auto result = profiler::disableProfiler();
  struct Sum {
    int calls = 0;
    double seconds = 0;
  };
  std::map<std::string, Sum> sums;
  double all = 0;
  for (const auto& event : result->events()) {
    if (event.deviceType() == at::kCUDA) {
      Sum& sum = sums[short_name(event.name())];
      ++sum.calls;
      sum.seconds += static_cast<double>(event.durationNs()) / 1e9;
      all += static_cast<double>(event.durationNs()) / 1e9;
    }
  }
  std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return a.second.seconds > b.second.seconds;
  });
  sorted.resize(std::min<std::size_t>(sorted.size(), 12));
  fmt::print(
      "\n| kernel, {} | calls | us each | us of all |\n"
      "|---|---:|---:|---:|\n",
      what);
  for (const auto& [name, sum] : sorted) {
    fmt::print(
        "| {} | {} | {:.2f} | {:.1f} |\n",
        name,
        sum.calls / count,
        sum.seconds * 1e6 / sum.calls,
        sum.seconds * 1e6 / count);
  }
  fmt::print("| all | | | {:.1f} |\n", all * 1e6 / count);
  std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
  const auto begin = Clock::now();
  std::vector<std::string> names(argv + 1, argv + argc);
  generate::GpuStepOptions options;
  if (std::erase(names, "--plain") > 0) {
    options.early = false;
  }
  if (names.empty()) {
    names = {"124M", "1.5B"};
  }
  const double copied = copy_rate();
  fmt::print("copies {:.2f} TB/s, read and written\n", copied / 1e12);
  print_latencies();
  for (const std::string& name : names) {
    const auto model = make_model(name);
    fmt::print("\n### {}\n\n", name);
    print_steps(*model, copied, options);
    print_prompts(*model, options);
    print_batches(model);
    for (const bool early : {true, false}) {
      for (const std::int64_t texts : {1, 8, 64}) {
        if (early && texts > 1) {
          continue;
        }
        generate::GpuStepOptions step = options;
        step.early = early && options.early;
        Steps steps(*model, texts, 100, step);
        steps.seconds(2); // records
        print_kernels(
            fmt::format("{} texts, {}", texts, early ? "early" : "waiting"),
            [&] { steps.step(); });
      }
    }
    Steps prompts(*model, 8, 512, options);
    print_kernels("8 prompts of 512", [&] { prompts.read_again(); });
    {
      const at::NoGradGuard no_grad;
      models::ModelInput input{
          .tokens = at::randint(
              50257,
              {8, 512},
              at::TensorOptions(gpu()).dtype(at::kLong))};
      input.logits_at = at::full({8}, 511, input.tokens.options());
      model->forward(input);
      print_kernels("the forward pass", [&] {
        model->forward(input);
        finish();
      });
    }
    fmt::print("\n{:.0f} s so far\n", since(begin));
  }
}
