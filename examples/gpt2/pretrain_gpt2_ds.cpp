// Pretrains a GPT-2 by Megatron's flags, with Cairn's engine. Its twin does
// the same in plain libtorch; docs/gpt2.md shows what differs.

#include "gpt2/arguments.h"
#include "gpt2/model.h"
#include "gpt2/optimizer.h"
#include "gpt2/progress.h"
#include "gpt2/webtext.h"

#include <cairn/cairn.h>
#include <cairn/models/transformer.h>

#include <cstdio>
#include <exception>
#include <string>
#include <variant>

namespace {

using cairn::Axis;
using cairn::ProcessMesh;
using cairn::models::ModelOutput;

void save_checkpoint(
    std::int64_t iteration,
    cairn::Engine& engine,
    const cairn::Config& args) {
  engine.save_checkpoint(
      *args.flags.checkpointing.save,
      "iter_" + std::to_string(iteration),
      {{"iteration", iteration}},
      {.rng = !args.flags.checkpointing.no_save_rng});
}

std::int64_t load_checkpoint(cairn::Engine& engine, const cairn::Config& args) {
  const auto [path, sd] = engine.load_checkpoint(
      *args.flags.checkpointing.load,
      {},
      {.rng = !args.flags.checkpointing.no_load_rng});
  return path ? std::get<std::int64_t>(sd.at("iteration")) : 0;
}

void pretrain(const cairn::Config& args, const cairn::World& world) {
  const ProcessMesh mpu = gpt2::make_mpu(args, world.group());
  const at::Device device(world.device_name());
  const gpt2::WebText text(args, mpu, device);
  torch::manual_seed(args.flags.training.seed + mpu.coordinate(Axis::data));
  auto model = gpt2::get_model(text.model(), args, mpu, device);
  auto adam = gpt2::get_optimizer(*model, args);
  auto lr_scheduler = gpt2::get_learning_rate_scheduler(args);
  auto [engine, optimizer, loader, schedule] = cairn::initialize(
      {.model = model,
       .optimizer = adam,
       .lr_scheduler = lr_scheduler,
       .lr_scheduler_counts_samples = true,
       .mesh = mpu,
       .settings = args,
       .description = text.model(),
       .world = world});

  std::int64_t start = 0;
  if (args.flags.checkpointing.load) {
    start = load_checkpoint(engine, args);
  }
  gpt2::Progress progress(args, mpu);
  for (auto i = start + 1; i <= *args.flags.training.train_iters; ++i) {
    const at::Tensor loss = engine.forward<ModelOutput>(text.batch(i)).loss;
    engine.backward(loss);
    engine.step();
    progress.log(i, loss, optimizer.cur_scale());
    if (gpt2::saves_at(i, args)) {
      save_checkpoint(i, engine, args);
    }
  }
}

} // namespace

int main(int argc, char** argv) {
  try {
    const cairn::World world = cairn::init_distributed();
    pretrain(
        gpt2::get_args(
            argc,
            argv,
            world,
            {"--deepspeed",
             "--deepspeed_config",
             "--zero-stage",
             "--hysteresis"}),
        world);
  } catch (const cairn::ConfigError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
