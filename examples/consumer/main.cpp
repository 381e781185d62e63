// Adds up a tensor over all ranks, however many there are: alone it is a world
// of one, under `cairn launch` a world of many.

#include <cairn/cairn.h>

#include <ATen/ops/full.h>

#include <iostream>

int main(int argc, char** argv) {
  try {
    const auto args = cairn::Args::parse(argc, argv);
    const cairn::World world = cairn::init_distributed();

    const auto config = cairn::Config::load(
        {.file = args.deepspeed_config,
         .json = args.deepspeed_config
             ? std::nullopt
             : std::optional<std::string>(R"({"train_batch_size": 64})"),
         .world_size = world.size()});
    at::Tensor x = at::full({4}, world.rank() + 1.0);
    x = world.group().all_reduce(x).wait();

    std::cout << "rank " << world.rank() << " of " << world.size() << " on "
              << world.device_name() << ": sum " << x[0].item<double>() << ", "
              << describe(config.deepspeed.batch.value()) << '\n';
  } catch (const cairn::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
