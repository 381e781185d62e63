#include "gpt2/arguments.h"

#include <cairn/base/error.h>
#include <cairn/base/log.h>
#include <cairn/config/config.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpt2 {
namespace {

const std::set<std::string> acted_on{
    "--num-layers",
    "--hidden-size",
    "--num-attention-heads",
    "--max-position-embeddings",
    "--make-vocab-size-divisible-by",
    "--attention-dropout",
    "--hidden-dropout",
    "--checkpoint-activations",
    "--tensor-model-parallel-size",
    "--model-parallel-size",
    "--local_rank",
    "--micro-batch-size",
    "--batch-size",
    "--train-iters",
    "--seed",
    "--lr",
    "--min-lr",
    "--lr-decay-style",
    "--lr-decay-iters",
    "--lr-warmup-fraction",
    "--lr-warmup-iters",
    "--weight-decay",
    "--clip-grad",
    "--adam-beta1",
    "--adam-beta2",
    "--adam-eps",
    "--fp16",
    "--loss-scale",
    "--initial-loss-scale",
    "--min-loss-scale",
    "--loss-scale-window",
    "--save",
    "--load",
    "--save-interval",
    "--no-save-rng",
    "--no-load-rng",
    "--log-interval",
    "--data-path",
    "--split",
    "--data-cache-path",
    "--seq-length",
    "--tokenizer-type",
    "--tokenizer-model",
    "--vocab-file",
    "--merge-file"};

void help_if_asked(
    const std::vector<std::string>& words,
    const std::function<bool(std::string_view)>& takes,
    int rank) {
  const auto asks = [](const std::string& word) {
    return word == "--help" || word == "-h";
  };
  if (std::ranges::none_of(words, asks)) {
    return;
  }
  if (rank == 0) {
    std::fputs(cairn::config::flags_text(takes).c_str(), stdout);
  }
  std::exit(EXIT_SUCCESS);
}

} // namespace

cairn::config::Config get_args(
    int argc,
    char** argv,
    const cairn::distributed::World& world,
    const std::set<std::string>& more) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto takes = [&](std::string_view flag) {
    return acted_on.contains(std::string(flag)) ||
        more.contains(std::string(flag));
  };
  help_if_asked(words, takes, world.rank());
  auto args =
      cairn::config::Config::load({.flags = words, .world_size = world.size()});
  for (const std::string& warning : args.warnings) {
    if (world.rank() == 0) {
      cairn::Logger().warning("{}", warning);
    }
  }
  for (const auto& [name, place] : args.given) {
    if (name.starts_with("--") && !takes(name)) {
      throw cairn::ConfigError(
          {.what = "this program does not act on that flag",
           .where = name,
           .remedy = "leave it out, or use `cairn pretrain gpt`"});
    }
  }
  const auto& flags = args.flags;
  if (!flags.model.num_layers || !flags.model.hidden_size ||
      !flags.model.num_attention_heads || !flags.data.seq_length ||
      !flags.training.train_iters || !flags.learning_rate.lr ||
      flags.data.data_path.empty()) {
    throw cairn::ConfigError(
        {.what = "the training is not described",
         .remedy = "give --num-layers, --hidden-size, --num-attention-heads, "
                   "--seq-length, --train-iters, --lr and --data-path"});
  }
  if (args.deepspeed.batch->accumulation != 1) {
    throw cairn::ConfigError(
        {.what = "this program updates after every micro batch",
         .where = "gradient_accumulation_steps",
         .remedy = "leave it out, or use `cairn pretrain gpt`"});
  }
  return args;
}

bool saves_at(std::int64_t iteration, const cairn::config::Config& args) {
  const auto& flags = args.flags.checkpointing;
  const std::int64_t end = *args.flags.training.train_iters;
  return flags.save &&
      (iteration == end || iteration % flags.save_interval.value_or(end) == 0);
}

cairn::distributed::ProcessMesh make_mpu(
    const cairn::config::Config& args,
    const cairn::distributed::ProcessGroup& world) {
  const auto tensor = args.flags.distributed.tensor_parallel;
  return cairn::distributed::ProcessMesh(
      world,
      cairn::distributed::MeshShape::infer(
          world.size(),
          {.tensor = static_cast<int>(tensor)}));
}

} // namespace gpt2
