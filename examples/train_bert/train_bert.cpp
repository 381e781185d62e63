// A small RoBERTa learns to fill in masked words of WikiText-2, in plain
// libtorch. Its twin does the same with Cairn's engine; docs/train-bert.md
// shows what differs.

#include "bert/masked_text.h"
#include "bert/options.h"
#include "bert/run_folder.h"

#include <cairn/base/file.h>
#include <cairn/cairn.h>
#include <cairn/models/transformer.h>
#include <torch/optim/adam.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

void save(
    const bert::RunFolder& run,
    std::int64_t step,
    const torch::nn::Module& model,
    const torch::optim::Adam& optimizer) {
  OutputArchive file;
  OutputArchive weights;
  OutputArchive states;
  model.save(weights);
  optimizer.save(states);
  file.write("model", weights);
  file.write("optimizer", states);
  file.write("step", c10::IValue(step));
  const auto name = "checkpoint.iter_" + std::to_string(step) + ".pt";
  file.save_to(run.path() / name);
  cairn::write_file_atomically(run.path() / "latest", name);
}

/// The step that it was saved at; 0 where nothing was.
std::int64_t load(
    const bert::RunFolder& run,
    torch::nn::Module& model,
    torch::optim::Adam& optimizer) {
  const auto latest = run.path() / "latest";
  if (!exists(latest)) {
    return 0;
  }
  InputArchive file;
  InputArchive weights;
  InputArchive states;
  c10::IValue step;
  file.load_from(
      run.path() / cairn::read_file(latest, 1000),
      model.parameters()[0].device());
  file.read("model", weights);
  file.read("optimizer", states);
  file.read("step", step);
  model.load(weights);
  optimizer.load(states);
  return step.toInt();
}

void train(const bert::Options& options) {
  const cairn::World world = cairn::init_distributed();
  const bert::MaskedText text(options, world);
  bert::RunFolder run(options, world);
  const at::Device device(world.device_name());
  torch::manual_seed(options.seed + world.rank());
  auto model = cairn::models::make_model(text.model(), {.device = device});
  cairn::DistributedDataParallel ddp(model, world.group());
  torch::optim::Adam optimizer(model->parameters(), 1e-4);

  const std::int64_t start = load(run, *model, optimizer);
  for (std::int64_t step = start + 1; step <= options.num_iterations; ++step) {
    const at::Tensor loss = model->forward(text.batch(step)).loss;
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    run.log(step, loss);
    if (step % options.checkpoint_every == 0 && world.rank() == 0) {
      save(run, step, *model, optimizer);
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
