// configs_bench: GPT-lite on a text of characters, or ResNet-18 on pictures in
// CIFAR-10's format, trained for some steps as a JSON file says. One line of
// JSON on rank 0: samples per second and memory. run.py runs it for every
// configuration and makes the table.
//
//   cairn launch --num_gpus 2 configs_bench --deepspeed_config zero3.json
//       --model gpt-lite --data input.txt

#include "engine/internal/device_memory.h"
#include "memory_meter.h"
#include "pretrain/internal/build_model.h"
#include "pretrain/internal/stages.h"
#include "resnet18_cifar10/synthetic_cifar10.h"

#include <cairn/cairn.h>
#include <cairn/data/character_text_dataset.h>
#include <cairn/data/cifar10_dataset.h>
#include <cairn/model/presets.h>
#include <cairn/models/resnet18.h>
#include <cairn/text/tokenizer.h>
#include <fmt/format.h>
#include <torch/nn/functional/loss.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace cairn;

struct Options {
  std::string config;
  std::string model = "gpt-lite";
  std::string data;
  int stages = 1;
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t block = 2048;
  std::int64_t pictures = 0;
  int warm_up = 3;
  int steps = 20;
  double memory_limit = 0;
};

/// False: help was shown.
bool parse(int argc, char** argv, Options& o) {
  auto args = Args::parse(argc, argv, Args::Others::keep);
  CLI::App app("Trains for some steps and says how fast, and in what memory.");
  app.add_option("--model", o.model)
      ->check(CLI::IsMember({"gpt-lite", "resnet18"}));
  app.add_option("--data", o.data, "a text, or CIFAR-10's folder")->required();
  app.add_option("--stages", o.stages, "of a pipeline");
  app.add_option("--layers", o.layers, "GPT-lite's blocks");
  app.add_option("--width", o.width, "or ResNet's first channels");
  app.add_option("--block", o.block, "GPT-lite's tokens");
  app.add_option("--pictures", o.pictures, "to make up in the folder first");
  app.add_option("--warm-up", o.warm_up, "steps that are not timed");
  app.add_option("--steps", o.steps, "steps that are");
  app.add_option("--memory-limit", o.memory_limit, "of a rank, in bytes");
  std::reverse(args.rest.begin(), args.rest.end()); // as CLI11 wants it
  try {
    app.parse(args.rest);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& error) {
    throw ConfigError({.what = error.what(), .remedy = "see --help"});
  }
  o.config = args.deepspeed_config.value_or("");
  if (o.config.empty() || std::min({o.stages, o.steps}) < 1 || o.warm_up < 0 ||
      std::min({o.layers, o.width, o.block}) < 1) {
    throw ConfigError(
        {.what = "there is no configuration, or a size that cannot be",
         .remedy = "--deepspeed_config FILE, and sizes above 0"});
  }
  return true;
}

/// A model with its data: step() trains one batch of all ranks.
class Training {
 public:
  Training(Initialized made, int micro_batches)
      : engine_(made.engine),
        loader_(made.loader),
        micro_batches_(micro_batches) {}
  virtual ~Training() = default;

  virtual at::Tensor step() {
    at::Tensor last;
    for (int i = 0; i < micro_batches_; ++i) {
      last = loss(next());
      engine_.backward(last);
      engine_.step();
    }
    return last;
  }
  Engine& engine() { return engine_; }

 protected:
  virtual at::Tensor loss(const TrainingBatch& batch) = 0;
  TrainingBatch next() {
    if (auto batch = loader_.next()) {
      return std::move(*batch);
    }
    loader_.set_epoch(loader_.epoch() + 1);
    return loader_.next().value();
  }

  Engine engine_;

 private:
  TrainingLoader loader_;
  int micro_batches_;
};

struct Setting {
  const Options& options;
  const config::Config& config;
  const World& world;
  distributed::ProcessMesh mesh;
  at::Device device;

  Initialized initialized(Model model, TrainingData data) const {
    return initialize(
        {.model = std::move(model),
         .training_data = std::move(data),
         .mesh = mesh,
         .settings = config,
         .world = world,
         .logger = Logger(
             {.rank = world.rank(),
              .world_size = world.size(),
              .least = LogLevel::warning})});
  }
  int micro_batches() const {
    return static_cast<int>(config.deepspeed.batch->accumulation);
  }
};

class GptLite : public Training {
 public:
  explicit GptLite(const Setting& setting)
      : GptLite(setting, open(setting.options)) {}

  at::Tensor step() override {
    if (!pipelined_) {
      return Training::step();
    }
    return engine_.train_batch([&] {
      return std::optional(
          pretrain::micro_batch_of(description_, {}, input(next())));
    });
  }

 private:
  struct Text {
    std::shared_ptr<const data::CharacterTextDataset> windows;
    models::ModelDescription description;
  };

  GptLite(const Setting& setting, const Text& text)
      : Training(
            setting.initialized(model(setting, text.description), text.windows),
            setting.micro_batches()),
        description_(text.description),
        pipelined_(pretrain::is_pipelined(setting.config.flags.distributed)) {}

  static Text open(const Options& options) {
    const auto tokenizer = text::load_tokenizer(
        {.type = "CharTokenizer", .vocab_file = options.data});
    auto parts = data::open_character_text(
        options.data,
        *tokenizer,
        {.block_size = static_cast<std::size_t>(options.block)});
    auto description = model::gpt_lite_description(
        static_cast<std::int64_t>(tokenizer->vocab_size()));
    description.layers = options.layers;
    description.hidden = options.width;
    description.heads = std::max<std::int64_t>(1, options.width / 64);
    description.key_value_heads = description.heads;
    description.head_size = options.width / description.heads;
    description.ffn = 4 * options.width;
    description.positions = options.block;
    return {
        std::make_shared<data::CharacterTextDataset>(std::move(parts.train)),
        description};
  }
  static Model model(
      const Setting& setting,
      const models::ModelDescription& description) {
    const zero::Init sliced(
        {.world = setting.world,
         .mesh = setting.mesh,
         .enabled = setting.config.deepspeed.zero.stage ==
             config::ZeroStage::weights});
    return pretrain::build_model(
        description,
        setting.config,
        setting.mesh,
        setting.device,
        Logger(),
        {.seed = 1234});
  }
  static models::ModelInput input(const TrainingBatch& batch) {
    models::ModelInput input{.tokens = batch["tokens"]};
    input.labels = batch["labels"];
    return input;
  }
  at::Tensor loss(const TrainingBatch& batch) override {
    return engine_.forward<models::ModelOutput>(input(batch)).loss;
  }

  models::ModelDescription description_;
  bool pipelined_;
};

class ResNet : public Training {
 public:
  explicit ResNet(const Setting& setting)
      : Training(
            setting.initialized(
                models::ResNet18(10, setting.options.width),
                std::make_shared<const data::Cifar10Dataset>(
                    setting.options.data)),
            setting.micro_batches()) {}

 private:
  at::Tensor loss(const TrainingBatch& batch) override {
    const at::Tensor logits =
        engine_(batch["pixels"].view({-1, 3, 32, 32})).to(at::kFloat);
    return torch::nn::functional::cross_entropy(
        logits,
        batch["label"].view({-1}));
  }
};

std::unique_ptr<Training> make_training(const Setting& setting) {
  torch::manual_seed(1);
  if (setting.options.model == "gpt-lite") {
    return std::make_unique<GptLite>(setting);
  }
  if (setting.options.stages > 1) {
    throw ConfigError(
        {.what = "ResNet-18 is no list of layers that a pipeline could cut",
         .where = "--stages"});
  }
  return std::make_unique<ResNet>(setting);
}

/// Elements of the whole model; a pipeline's stages have a part each.
std::int64_t count_parameters(Training& training, const Setting& setting) {
  std::int64_t count = 0;
  for (const auto& parameter : training.engine().module().parameters()) {
    count += parameter.numel();
  }
  const at::Tensor sum =
      at::full({}, count, at::TensorOptions(at::kLong).device(setting.device));
  setting.mesh.along(Axis::pipeline).all_reduce(sum).wait();
  return sum.item<std::int64_t>();
}

void run(const Options& options) {
  const World world = init_distributed();
  const at::Device device(world.device_name());
  if (options.pictures > 0 && world.rank() == 0) {
    synthetic::write_cifar10(
        options.data,
        static_cast<std::uint64_t>(options.pictures));
  }
  world.group().barrier();
  // The meter's thread reads the device's allocator, which begins with this.
  const at::Tensor first = at::zeros({1}, at::TensorOptions().device(device));
  MemoryMeter meter(
      device,
      options.memory_limit > 0
          ? std::optional(static_cast<std::uint64_t>(options.memory_limit))
          : std::nullopt);
  std::vector<std::string> flags;
  if (options.stages > 1) {
    flags = {"--pipeline-model-parallel-size", std::to_string(options.stages)};
  }
  const auto config = config::Config::load(
      {.file = options.config, .flags = flags, .world_size = world.size()});
  const Setting setting{
      options,
      config,
      world,
      pretrain::mesh_of(config.flags.distributed, world.group()),
      device};
  const auto training = make_training(setting);
  const std::int64_t parameters = count_parameters(*training, setting);

  using Clock = std::chrono::steady_clock;
  Clock::time_point begin;
  double began = 0; // the same moment, for who watches from outside
  at::Tensor loss;
  for (int i = -options.warm_up; i < options.steps; ++i) {
    if (i == 0) {
      engine::synchronize(device);
      world.group().barrier();
      meter.reset();
      begin = Clock::now();
      began = std::chrono::duration<double>(
                  std::chrono::system_clock::now().time_since_epoch())
                  .count();
    }
    loss = training->step();
  }
  engine::synchronize(device);
  world.group().barrier();
  const double seconds =
      std::chrono::duration<double>(Clock::now() - begin).count();

  const MemoryMeter::Reading memory = meter.read();
  const at::Tensor average = at::full({1}, memory.average, at::kDouble);
  const at::Tensor most = at::full({1}, memory.most, at::kDouble);
  const at::Tensor averages =
      world.group().all_gather(average.to(device)).wait();
  const at::Tensor peaks = world.group().all_gather(most.to(device)).wait();
  if (world.rank() == 0) {
    const auto samples =
        static_cast<double>(options.steps * config.deepspeed.batch->train);
    fmt::print(
        R"({{"parameters": {}, "ranks": {}, "samples_per_second": {:.4f}, )"
        R"("memory_average": {:.0f}, "memory_max": {:.0f}, "loss": {:.4f}, )"
        R"("began": {:.3f}, "device": "{}"}})"
        "\n",
        parameters,
        world.size(),
        samples / seconds,
        averages.mean().item<double>(),
        peaks.max().item<double>(),
        loss.item<double>(),
        began,
        device.is_cuda() ? engine::hardware_name(device) : "cpu");
  }
}

} // namespace

int main(int argc, char** argv) {
  try {
    Options options;
    if (parse(argc, argv, options)) {
      run(options);
    }
  } catch (const ConfigError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
