#include "gpt2/webtext.h"

#include <cairn/base/error.h>
#include <cairn/data/collate.h>
#include <cairn/data/samplers.h>
#include <cairn/data/tensor_batch.h>
#include <cairn/model/presets.h>
#include <cairn/models/pretraining.h>
#include <cairn/nn/dropout.h>
#include <cairn/text/tokenizer.h>

namespace gpt2 {

namespace data = cairn::data;
using cairn::distributed::Axis;

WebText::WebText(
    const cairn::config::Config& args,
    const cairn::distributed::ProcessMesh& mpu,
    at::Device device)
    : batch_(*args.deepspeed.batch), mpu_(mpu), device_(device) {
  const auto& flags = args.flags;
  const auto tokenizer = cairn::text::load_tokenizer(
      {.type = flags.tokenizer.type.value_or(""),
       .vocab_file = flags.tokenizer.vocab_file.value_or(""),
       .merge_file = flags.tokenizer.merge_file.value_or(""),
       .model_file = flags.tokenizer.model.value_or("")});
  const auto words = static_cast<std::int64_t>(tokenizer->vocab_size());
  const std::int64_t unit = flags.model.make_vocab_size_divisible_by *
      flags.distributed.tensor_parallel;
  model_ = cairn::model::gpt_description(
      {.layers = *flags.model.num_layers,
       .hidden = *flags.model.hidden_size,
       .heads = *flags.model.num_attention_heads,
       .sequence =
           flags.model.max_position_embeddings.value_or(*flags.data.seq_length),
       .vocabulary = words,
       .padded_vocabulary = (words + unit - 1) / unit * unit,
       .dropout = flags.regularization.hidden_dropout});
  model_.attention_dropout = flags.regularization.attention_dropout;
  data::DataSelection selection{
      .blend = data::Blend::parse(flags.data.data_path),
      .split = flags.data.split,
      .samples = {*flags.training.train_iters * batch_.train, 0, 0}};
  if (flags.data.cache_path) {
    selection.cache_path = *flags.data.cache_path;
  }
  samples_ = data::build_gpt_datasets(
      {.data = selection,
       .sequence_length = *flags.data.seq_length,
       .seed = static_cast<std::uint32_t>(flags.training.seed)},
      cairn::Logger({.least = cairn::LogLevel::warning}));
  if (!samples_[data::Split::train]) {
    throw cairn::ConfigError(
        {.what = "nothing is left for training",
         .where = "--split",
         .values = flags.data.split});
  }
}

cairn::models::ModelInput WebText::batch(std::int64_t iteration) const {
  const auto& samples = *samples_[data::Split::train];
  data::SequentialSampler sampler(
      {.total_samples = static_cast<std::int64_t>(samples.size()),
       .consumed_samples = (iteration - 1) * batch_.train,
       .micro_batch_size = batch_.micro,
       .parallel = {
           .rank = mpu_.coordinate(Axis::data),
           .size = mpu_.degree(Axis::data)}});
  data::Batch batch;
  data::collate(samples, sampler.next()->indices, data::allocate_host, batch);
  auto input = cairn::models::pretraining_input(
      model_,
      data::TensorBatch(batch).to(device_));
  input.samples = cairn::nn::sample_numbers( // for dropout
      (iteration - 1) * batch_.train +
          mpu_.coordinate(Axis::data) * batch_.micro,
      batch_.micro,
      device_);
  return input;
}

} // namespace gpt2
