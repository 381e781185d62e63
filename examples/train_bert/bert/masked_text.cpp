#include "bert/masked_text.h"

#include <cairn/base/error.h>
#include <cairn/data/samplers.h>
#include <cairn/data/tensor_batch.h>
#include <cairn/data/wikitext.h>
#include <cairn/model/presets.h>
#include <cairn/models/pretraining.h>
#include <cairn/text/tokenizer.h>

#include <filesystem>

namespace bert {

namespace data = cairn::data;

MaskedText::MaskedText(
    const Options& options,
    const cairn::distributed::World& world)
    : options_(options), world_(world) {
  if (!std::filesystem::is_directory(options.tokenizer)) {
    throw cairn::DataError(
        {.what = "there is no such folder with a tokenizer",
         .where = options.tokenizer,
         .remedy = "--tokenizer FOLDER, with RoBERTa's vocab.json and "
                   "merges.txt: `cairn data download roberta-base`"});
  }
  tokenizer_ = cairn::text::load_tokenizer(
      {.type = "RobertaTokenizer",
       .model_file = options.tokenizer,
       .add_special_tokens = false});
  lines_.emplace(
      data::WikiText(options.data).lines(),
      *tokenizer_,
      data::MlmOptions{
          .seed = static_cast<std::uint64_t>(options.seed),
          .max_length = static_cast<std::size_t>(options.max_seq_length),
          .mask_probability = options.mask_prob,
          .random_probability = options.random_replace_prob,
          .keep_probability = options.unmask_replace_prob});
}

cairn::models::ModelDescription MaskedText::model() const {
  auto description = cairn::model::roberta_small_description();
  description.layers = options_.num_layers;
  description.heads = options_.num_heads;
  description.key_value_heads = options_.num_heads;
  description.hidden = options_.h_dim;
  description.head_size = options_.h_dim / options_.num_heads;
  description.ffn = options_.ff_dim;
  description.dropout = options_.dropout;
  description.attention_dropout = options_.dropout;
  description.positions = options_.max_seq_length + description.position_offset;
  description.vocabulary = static_cast<std::int64_t>(tokenizer_->vocab_size());
  description.padded_vocabulary = description.vocabulary;
  description.pad_token = lines_->padding();
  return description;
}

cairn::models::ModelInput MaskedText::batch(std::int64_t step) const {
  data::CyclicSampler sampler(
      {.total_samples = static_cast<std::int64_t>(lines_->size()),
       .consumed_samples = (step - 1) * options_.batch_size * world_.size(),
       .micro_batch_size = options_.batch_size,
       .parallel = {.rank = world_.rank(), .size = world_.size()},
       .seed = static_cast<std::uint64_t>(options_.seed),
       .number_passes = true});
  data::Batch batch;
  data::collate(*lines_, sampler.next()->indices, data::allocate_host, batch);
  return cairn::models::pretraining_input(
      model(),
      data::TensorBatch(batch).to(at::Device(world_.device_name())));
}

} // namespace bert
