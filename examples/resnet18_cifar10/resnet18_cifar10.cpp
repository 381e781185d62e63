// ResNet-18 on CIFAR-10; --help says how to start it.

#include "synthetic_cifar10.h"

#include <cairn/cairn.h>
#include <cairn/data/cifar10_dataset.h>
#include <cairn/models/resnet18.h>

#include <torch/nn/functional/loss.h>

#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Options {
  std::string data = "cifar-10-batches-bin";
  std::int64_t epochs = 5;
  std::int64_t width = 64;      ///< channels of the first stage
  std::int64_t synthetic = 0;   ///< pictures to make up
  std::int64_t log_every = 100; ///< steps between two lines

  static Options parse(const std::vector<std::string>& words) {
    Options options;
    for (std::size_t i = 0; i < words.size(); i += 2) {
      const std::string& name = words[i];
      const std::string value = i + 1 < words.size() ? words[i + 1] : "";
      if (name == "--data" && !value.empty()) {
        options.data = value;
      } else if (name == "--epochs") {
        options.epochs = number(name, value);
      } else if (name == "--width") {
        options.width = number(name, value);
      } else if (name == "--synthetic") {
        options.synthetic = number(name, value);
      } else if (name == "--log_every") {
        options.log_every = number(name, value);
      } else {
        throw cairn::ConfigError(
            {.what = "unknown argument, or one without its value",
             .where = name,
             .remedy = "--data FOLDER, --epochs N, --width N, --synthetic N, "
                       "--log_every N"});
      }
    }
    return options;
  }

 private:
  static std::int64_t number(const std::string& name, const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 1) {
      throw cairn::ConfigError(
          {.what = "needs a number above 0", .where = name, .values = text});
    }
    return value;
  }
};

/// Sums over the batches of an epoch.
class Score {
 public:
  explicit Score(at::Device device)
      : sums_(at::zeros({3}, at::TensorOptions(at::kFloat).device(device))) {}

  void add(
      const at::Tensor& loss,
      const at::Tensor& logits,
      const at::Tensor& labels) {
    sums_[0] += loss.detach() * labels.numel();
    sums_[1] += logits.argmax(1).eq(labels).sum();
    sums_[2] += labels.numel();
  }
  struct Means {
    double loss;
    double accuracy;
  };
  /// Means over all ranks.
  Means means(const cairn::ProcessGroup& group) const {
    const at::Tensor all = group.all_reduce(sums_.clone()).wait().cpu();
    const double count = all[2].item<double>();
    return {all[0].item<double>() / count, all[1].item<double>() / count};
  }

 private:
  at::Tensor sums_;
};

struct Pictures {
  at::Tensor images;
  at::Tensor labels;
  explicit Pictures(const cairn::TrainingBatch& batch)
      : images(batch["pixels"].view({-1, 3, 32, 32})),
        labels(batch["label"].view({-1})) {}
};

constexpr const char* usage =
    "ResNet-18 on CIFAR-10, trained as a JSON file says.\n\n"
    "  cairn launch --num_gpus 2 resnet18_cifar10_example\n"
    "    --deepspeed_config ds.json [--data FOLDER] [--epochs N] [--width N]\n"
    "    [--synthetic N] [--log_every N]\n\n"
    "  --data FOLDER  CIFAR-10's binary version (cifar-10-batches-bin)\n"
    "  --epochs N     how often over the training pictures (5)\n"
    "  --width N      channels of the first stage (64)\n"
    "  --synthetic N  write N made-up pictures to the folder first\n"
    "  --log_every N  steps between two lines with the loss (100)\n";

void run(int argc, char** argv) {
  const auto args = cairn::Args::parse(argc, argv, cairn::Args::Others::keep);
  const Options options = Options::parse(args.rest);
  const auto world = cairn::init_distributed();
  if (options.synthetic > 0 && world.rank() == 0) {
    synthetic::write_cifar10(options.data, options.synthetic);
  }
  world.group().barrier();
  using cairn::data::Cifar10Dataset;
  const auto train = std::make_shared<const Cifar10Dataset>(options.data);
  const auto test = std::make_shared<const Cifar10Dataset>(
      options.data,
      cairn::data::Cifar10Options{.train = false});

  torch::manual_seed(1);
  cairn::models::ResNet18 net(10, options.width);
  auto [engine, optimizer, loader, schedule] = cairn::initialize(
      {.args = args, .model = net, .training_data = train, .world = world});
  cairn::TrainingLoader test_loader(
      test,
      {.sampler =
           {.batch_size = engine.settings().train_micro_batch_size_per_gpu,
            .parallel = {.rank = world.rank(), .size = world.size()},
            .shuffle = false},
       .device = engine.device()});

  const auto score_of = [&engine =
                             engine](const Pictures& batch, Score& score) {
    const at::Tensor logits = engine(batch.images).to(at::kFloat);
    const at::Tensor loss =
        torch::nn::functional::cross_entropy(logits, batch.labels);
    score.add(loss, logits, batch.labels);
    return loss;
  };
  std::printf(
      "Starting training, I'm rank %d on %s\n",
      engine.rank(),
      engine.device().str().c_str());
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    Score training(engine.device());
    engine.train();
    std::int64_t step = 0;
    for (auto& batch : loader) {
      const at::Tensor loss = score_of(Pictures(batch), training);
      engine.backward(loss);
      engine.step();
      if (++step % options.log_every == 0 && engine.local_rank() == 0) {
        std::printf(
            "Epoch: %d, Step: %d, Loss: %.4f\n",
            static_cast<int>(epoch),
            static_cast<int>(step),
            loss.item<double>());
        std::fflush(stdout);
      }
    }
    Score testing(engine.device());
    engine.eval();
    {
      const torch::NoGradGuard no_grad;
      for (auto& batch : test_loader) {
        score_of(Pictures(batch), testing);
      }
    }
    const auto seen = training.means(world.group());
    const auto unseen = testing.means(world.group());
    if (engine.rank() == 0) {
      std::printf(
          "epoch %d: loss %.4f, accuracy %.1f %%; test loss %.4f, accuracy "
          "%.1f %%\n",
          static_cast<int>(epoch),
          seen.loss,
          100 * seen.accuracy,
          unseen.loss,
          100 * unseen.accuracy);
      std::fflush(stdout);
    }
  }
}

} // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    std::fputs(usage, stdout);
    return 0;
  }
  try {
    run(argc, argv);
  } catch (const cairn::ConfigError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const cairn::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
