#include "../best_seconds.h"
#include "base/internal/freed_memory.h"
#include "engine/internal/recording_stream.h"
#include "kernel_table.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <cairn/nn/mixture.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// moe_bench [--device cpu|cuda] [--type fp32|bf16] [--threads N] [--hidden N]
//           [--ffn N] [--tokens N] [--seconds S] [--activation gelu|gelu_tanh]
//           [--table alone|room|dropless|kernels] [--graphs yes]
//
// Many small experts beside one dense MLP of the same arithmetic, forward and
// backward, in turns. Tables in Markdown: experts alone, which get their tokens
// laid out; then the mixture as it is used, with its router and room for 1.25
// times an even share; then the mixture that drops no token. --table kernels
// names the GPU's kernels in passes of the dense MLP and of such mixtures.
//
// A GPU gets ten passes before the host waits for it, as in training: the host
// queues one while the GPU computes the one before. With --graphs a pass is
// recorded as a CUDA graph, as the engine's `cuda_graphs` does it. It must not
// wait for the GPU then, so it goes with --table dropless.

namespace {

using namespace cairn;

struct Settings {
  std::string device = "cpu";
  std::string type = "fp32";
  std::int64_t threads = 2;
  std::int64_t hidden = 256;
  std::int64_t ffn = 1024;
  std::int64_t tokens = 4096;
  double seconds = 3; ///< for each row, and as many for the dense MLP
  std::string activation = "gelu";
  std::string table; ///< the only one; empty: all
  bool graphs = false;
};

constexpr double capacity_factor = 1.25;
constexpr std::int64_t tokens_of_an_expert = 8; ///< an eighth of all
constexpr int passes_queued = 10;

struct Meter {
  Settings settings;
  nn::LayerContext context;

  explicit Meter(const Settings& given) : settings(given) {
    context.device = at::Device(settings.device);
    context.dtype = settings.type == "bf16" ? at::kBFloat16 : at::kFloat;
    context.initial = nn::InitialWeights{};
  }

  at::Tensor input(std::int64_t rows) const {
    return at::randn({1, rows, settings.hidden})
        .to(context.dtype)
        .to(context.device)
        .requires_grad_();
  }

  nn::MlpOptions mlp(std::int64_t ffn) const {
    return {
        .hidden = settings.hidden,
        .ffn = ffn,
        .activation = settings.activation == "gelu"
            ? model::ActivationKind::gelu
            : model::ActivationKind::gelu_tanh};
  }

  bool has(std::string_view table) const {
    return settings.table.empty() || settings.table == table;
  }

  void finish() const {
    if (context.device.is_cuda()) {
      at::accelerator::synchronizeDevice(0);
    }
  }

  /// Seconds of the quickest forward and backward pass.
  template <typename Forward>
  double seconds(
      const std::string& name,
      const torch::nn::Module& layer,
      at::Tensor& x,
      const Forward& forward) const {
    std::vector<at::Tensor> outer;
    for (const at::Tensor& result : forward()) {
      outer.push_back(at::randn_like(result));
    }
    const auto pass = [&] {
      torch::autograd::backward(forward(), outer);
      x.mutable_grad().reset();
      for (at::Tensor parameter : layer.parameters()) {
        parameter.mutable_grad().reset();
      }
    };
    std::unique_ptr<RecordingStream> stream;
    std::unique_ptr<RecordedWork> recorded;
    const auto run = [&] {
      recorded ? stream->run([&] { recorded->repeat(); }) : pass();
    };
    const int passes = context.device.is_cuda() ? passes_queued : 1;
    const auto batch = [&] {
      for (int i = 0; i < passes; ++i) {
        run();
      }
      finish();
    };
    batch();
    batch();
    if (settings.graphs) {
      stream = recording_stream(context.device);
      stream->run([&] { pass(); }); // makes its memory known to the stream
      stream->run([&] { recorded = stream->record(pass); });
      batch();
    }
    if (settings.table == "kernels") {
      bench::print_kernels(name, pass);
    }
    return bench::best_seconds(settings.seconds, batch) / passes;
  }
};

/// A layer timed in turns with the dense MLP, so that both see the same
/// machine.
struct Row {
  std::string name;
  double seconds = 0;
  double dense = 0;   ///< seconds
  double padding = 1; ///< rows computed for each that has a token
};

void print(const Row& row, const Settings& settings) {
  const double ratio = row.dense / row.seconds;
  fmt::print(
      "| {} | {:.0f} | {:.2f} | {:.2f} |\n",
      row.name,
      static_cast<double>(settings.tokens) / row.seconds,
      ratio,
      ratio * row.padding);
  std::fflush(stdout);
}

class Rows {
 public:
  explicit Rows(const Meter& meter)
      : meter_(meter),
        dense_(meter.context.in("dense"), meter.mlp(meter.settings.ffn)),
        input_(meter.input(meter.settings.tokens)) {}

  double dense() {
    return meter_.seconds("dense", dense_, input_, [&] {
      return std::vector{dense_.forward(input_)};
    });
  }

  /// Every expert has an eighth of the tokens, and so many times fewer columns
  /// that the products come to the dense ones. One expert has all tokens.
  Row experts_alone(std::int64_t count) {
    const Settings& s = meter_.settings;
    const std::int64_t share = count == 1 ? 1 : tokens_of_an_expert;
    const std::int64_t ffn = s.ffn * share / count;
    const nn::Experts experts(
        meter_.context.in("experts"),
        meter_.mlp(ffn),
        count);
    at::Tensor x = at::randn({count, s.tokens / share, s.hidden})
                       .to(meter_.context.dtype)
                       .to(meter_.context.device)
                       .requires_grad_();
    Row row{fmt::format("{} x {} columns", count, ffn)};
    row.dense = dense();
    row.seconds = meter_.seconds(row.name, experts, x, [&] {
      return std::vector{experts.forward(x)};
    });
    return row;
  }

  /// Measures a mixture. For top k its experts have a k-th of the columns.
  Row mixture(std::int64_t count, std::int64_t top_k, bool drop_tokens) {
    const Settings& s = meter_.settings;
    const nn::MixtureOptions options{
        .expert = meter_.mlp(s.ffn / top_k),
        .experts = count,
        .routing = {
            .top_k = top_k,
            .capacity_factor = capacity_factor,
            .drop_tokens = drop_tokens}};
    const nn::Mixture mixture(meter_.context.in("mixture"), options);
    Row row{
        fmt::format("{} of {} x {} columns", top_k, count, options.expert.ffn)};
    row.dense = dense();
    row.seconds = meter_.seconds(row.name, mixture, input_, [&] {
      const nn::Mixture::Output output = mixture.forward(input_);
      return std::vector{output.hidden, output.balance_loss};
    });
    row.padding = drop_tokens ? capacity_factor : 1;
    return row;
  }

 private:
  const Meter& meter_;
  nn::Mlp dense_;
  at::Tensor input_;
};

void head(const char* what) {
  fmt::print("\n| {} | tokens/s | of dense | less padding |\n", what);
  fmt::print("|---|---|---|---|\n");
}

template <typename Number>
bool read(std::string_view text, Number& number) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0;
}

bool read(int argc, char** argv, Settings& settings) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string_view value = argv[i + 1];
    if (name == "--device" && (value == "cpu" || value == "cuda")) {
      settings.device = value;
    } else if (name == "--type" && (value == "fp32" || value == "bf16")) {
      settings.type = value;
    } else if (
        (name == "--threads" && read(value, settings.threads)) ||
        (name == "--hidden" && read(value, settings.hidden)) ||
        (name == "--ffn" && read(value, settings.ffn)) ||
        (name == "--tokens" && read(value, settings.tokens)) ||
        (name == "--seconds" && read(value, settings.seconds))) {
      continue;
    } else if (
        name == "--activation" && (value == "gelu" || value == "gelu_tanh")) {
      settings.activation = value;
    } else if (
        name == "--table" &&
        (value == "alone" || value == "room" || value == "dropless" ||
         value == "kernels")) {
      settings.table = value;
    } else if (name == "--graphs" && value == "yes") {
      settings.graphs = true;
    } else {
      return false;
    }
  }
  if (settings.graphs &&
      (settings.device != "cuda" || settings.table != "dropless")) {
    return false;
  }
  // The most experts divide the work, and eight for a token the columns.
  return argc % 2 == 1 && settings.ffn % 64 == 0 && settings.tokens % 128 == 0;
}

} // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (!read(argc, argv, settings)) {
    fmt::print(
        stderr,
        "usage: moe_bench [--device cpu|cuda] [--type fp32|bf16] [--threads N] "
        "[--hidden N] [--ffn N (a multiple of 64)] [--tokens N (of 128)] "
        "[--seconds N] [--activation gelu|gelu_tanh] "
        "[--table alone|room|dropless|kernels] "
        "[--graphs yes (with --device cuda --table dropless)]\n");
    return 2;
  }
  keep_freed_memory();
  at::set_num_threads(static_cast<int>(settings.threads));
  torch::manual_seed(0);
  const Meter meter(settings);
  fmt::print(
      "{} tokens, hidden size {}, a dense MLP of {} columns, {}, {} on {}{}\n",
      settings.tokens,
      settings.hidden,
      settings.ffn,
      settings.activation,
      settings.type,
      settings.device,
      settings.device == "cpu" ? fmt::format(", {} threads", settings.threads)
                               : "");
  Rows rows(meter);
  if (meter.has("alone")) {
    head("experts alone");
    for (const std::int64_t count : {1, 8, 32, 64, 128}) {
      print(rows.experts_alone(count), settings);
    }
  }
  if (meter.has("room")) {
    head("mixture");
    for (const std::int64_t top_k : {1, 2}) {
      for (const std::int64_t count : {8, 32, 64, 128}) {
        print(rows.mixture(count, top_k, /*drop_tokens=*/true), settings);
      }
    }
  }
  if (meter.has("dropless")) {
    head("mixture, none dropped");
    for (const std::int64_t top_k : {1, 2, 8}) {
      for (const std::int64_t count : {8, 32, 128}) {
        if (count > top_k) {
          print(rows.mixture(count, top_k, /*drop_tokens=*/false), settings);
        }
      }
    }
  }
  if (settings.table == "kernels") {
    rows.mixture(8, /*top_k=*/1, /*drop_tokens=*/false);
    rows.mixture(128, /*top_k=*/1, /*drop_tokens=*/false);
    rows.mixture(128, /*top_k=*/8, /*drop_tokens=*/false);
  }
  return 0;
}
