// A small RoBERTa learns to fill in masked words of WikiText-2, with
// Cairn's engine. Its twin does the same in plain libtorch; docs/train-bert.md
// shows what differs.

#include "bert/masked_text.h"
#include "bert/options.h"
#include "bert/run_folder.h"

#include <cairn/cairn.h>
#include <cairn/models/transformer.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <variant>

namespace {

using cairn::models::ModelOutput;

std::string configuration(const bert::Options& options, bool gpu) {
  return fmt::format(
      R"({{
        "train_micro_batch_size_per_gpu": {},
        "optimizer": {{"type": "Adam", "params": {{"lr": 1e-4}}}},
        "fp16": {{"enabled": {}}},
        "zero_optimization": {{
          "stage": 1,
          "offload_optimizer": {{"device": "cpu"}}
        }}
      }})",
      options.batch_size,
      gpu);
}

void train(const bert::Options& options) {
  const cairn::World world = cairn::init_distributed();
  const bert::MaskedText text(options, world);
  bert::RunFolder run(options, world);
  const at::Device device(world.device_name());
  torch::manual_seed(options.seed + world.rank());
  auto model = cairn::models::make_model(text.model(), {.device = device});
  auto [engine, optimizer, loader, schedule] = cairn::initialize(
      {.model = model,
       .config = configuration(options, device.is_cuda()),
       .description = text.model(),
       .world = world});

  const auto [path, client] = engine.load_checkpoint(run.path());
  const auto start =
      path ? std::get<std::int64_t>(client.at("checkpoint_step")) : 0;
  for (std::int64_t step = start + 1; step <= options.num_iterations; ++step) {
    const at::Tensor loss = engine.forward<ModelOutput>(text.batch(step)).loss;
    engine.backward(loss);
    engine.step();
    run.log(step, loss);
    if (step % options.checkpoint_every == 0) {
      engine.save_checkpoint(run.path(), {}, {{"checkpoint_step", step}});
    }
  }
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (const auto options = bert::Options::parse(argc, argv)) {
      train(*options);
    }
  } catch (const cairn::ConfigError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
