// Pretrains a GPT-2 by Megatron's flags, in plain libtorch with Cairn's pieces.
// Its twin does the same with the engine; docs/gpt2.md shows what differs.

#include "gpt2/arguments.h"
#include "gpt2/fp16_optimizer.h"
#include "gpt2/model.h"
#include "gpt2/optimizer.h"
#include "gpt2/progress.h"
#include "gpt2/webtext.h"

#include <ATen/Context.h>
#include <cairn/base/file.h>
#include <cairn/cairn.h>
#include <cairn/models/transformer.h>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>

namespace {

namespace fs = std::filesystem;
using cairn::Axis;
using cairn::ProcessMesh;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

at::Generator random_generator(const torch::nn::Module& model) {
  return at::globalContext().defaultGenerator(
      model.parameters().front().device());
}

/// [ranks, bytes]: of the ranks that share the data.
at::Tensor random_states(
    const torch::nn::Module& model,
    const ProcessMesh& mpu) {
  const at::Tensor own = random_generator(model).get_state().unsqueeze(0);
  return mpu.along(Axis::data)
      .all_gather(own.to(model.parameters().front().device()))
      .wait();
}

/// Each of the ranks that share the model has its own.
fs::path file_of(
    const fs::path& folder,
    const std::string& iteration,
    const ProcessMesh& mpu) {
  return folder / fmt::format("iter_{:0>7}", iteration) /
      fmt::format("mp_rank_{:02}", mpu.coordinate(Axis::tensor)) /
      "model_optim_rng.pt";
}

void save_checkpoint(
    std::int64_t iteration,
    const torch::nn::Module& model,
    const gpt2::Fp16Optimizer& optimizer,
    const cairn::Config& args,
    const ProcessMesh& mpu) {
  const fs::path folder = *args.flags.checkpointing.save;
  const auto name = std::to_string(iteration);
  const at::Tensor random = random_states(model, mpu);
  if (mpu.coordinate(Axis::data) == 0) {
    OutputArchive sd;
    OutputArchive weights;
    model.save(weights);
    sd.write("model", weights);
    optimizer.save(sd);
    sd.write("iteration", c10::IValue(iteration));
    if (!args.flags.checkpointing.no_save_rng) {
      sd.write("torch_rng_states", random);
    }
    const fs::path file = file_of(folder, name, mpu);
    fs::create_directories(file.parent_path());
    sd.save_to(file);
  }
  mpu.world().barrier();
  if (mpu.rank() == 0) {
    cairn::write_file_atomically(
        folder / "latest_checkpointed_iteration.txt",
        name);
  }
}

std::int64_t load_checkpoint(
    torch::nn::Module& model,
    gpt2::Fp16Optimizer& optimizer,
    const cairn::Config& args,
    const ProcessMesh& mpu) {
  const fs::path folder = *args.flags.checkpointing.load;
  const fs::path latest = folder / "latest_checkpointed_iteration.txt";
  if (!exists(latest)) {
    return 0;
  }
  InputArchive sd;
  InputArchive weights;
  c10::IValue iteration;
  sd.load_from(
      file_of(folder, cairn::read_file(latest, 20), mpu),
      model.parameters().front().device());
  sd.read("model", weights);
  model.load(weights);
  optimizer.load(sd);
  sd.read("iteration", iteration);
  at::Tensor random;
  if (!args.flags.checkpointing.no_load_rng &&
      sd.try_read("torch_rng_states", random) &&
      random.size(0) == mpu.along(Axis::data).size()) {
    random_generator(model).set_state(
        random[mpu.coordinate(Axis::data)].contiguous().cpu());
  }
  return iteration.toInt();
}

void pretrain(const cairn::Config& args, const cairn::World& world) {
  const ProcessMesh mpu = gpt2::make_mpu(args, world.group());
  const at::Device device(world.device_name());
  const gpt2::WebText text(args, mpu, device);
  torch::manual_seed(args.flags.training.seed + mpu.coordinate(Axis::data));
  auto model = gpt2::get_model(text.model(), args, mpu, device);
  auto adam = gpt2::get_optimizer(*model, args);
  auto lr_scheduler = gpt2::get_learning_rate_scheduler(args);
  gpt2::Fp16Optimizer optimizer(*model, adam, args, mpu);
  cairn::DistributedDataParallel ddp(model, mpu.along(Axis::data));

  std::int64_t start = 0;
  if (args.flags.checkpointing.load) {
    start = load_checkpoint(*model, optimizer, args, mpu);
  }
  gpt2::Progress progress(args, mpu);
  for (auto i = start + 1; i <= *args.flags.training.train_iters; ++i) {
    const at::Tensor loss = model->forward(text.batch(i)).loss;
    optimizer.zero_grad();
    optimizer.backward(loss);
    optimizer.update_master_grads();
    optimizer.clip_master_grads(args.deepspeed.gradients.clipping);
    optimizer.set_learning_rate(*lr_scheduler);
    optimizer.step();
    progress.log(i, loss, optimizer.loss_scale());
    if (gpt2::saves_at(i, args)) {
      save_checkpoint(i, *model, optimizer, args, mpu);
    }
  }
}

} // namespace

int main(int argc, char** argv) {
  try {
    const cairn::World world = cairn::init_distributed();
    pretrain(gpt2::get_args(argc, argv, world), world);
  } catch (const cairn::ConfigError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
