// GPT-lite: a GPT of characters, 12 layers and 768 wide with ReLU, trained on
// one text by a DeepSpeed JSON. The model's output has the classes in its
// second dimension, [batch, vocabulary, block], as cross_entropy() takes them.
//
//   cairn launch --num_gpus 8 gpt_lite_example --deepspeed_config ds.json
//       --data input.txt
//
// --layers, --width and --block make the model smaller, --epochs and --steps
// the training shorter.

#include <cairn/cairn.h>
#include <cairn/data/character_text_dataset.h>
#include <cairn/model/presets.h>
#include <cairn/models/transformer.h>
#include <cairn/text/tokenizer.h>
#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using cairn::model::ModelDescription;

struct Options {
  std::string data;
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t block = 2048;
  std::int64_t epochs = 20;
  std::int64_t steps = 0; ///< of an epoch; 0: all
};

std::int64_t number(const std::string& flag, const std::string& word) {
  std::size_t read = 0;
  std::int64_t value = 0;
  try {
    value = std::stoll(word, &read);
  } catch (const std::exception&) {
    read = 0;
  }
  if (read != word.size() || value < 1) {
    throw cairn::ConfigError(
        {.what = "takes a number above 0", .where = flag, .values = word});
  }
  return value;
}

Options options_of(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const std::string& flag = words[i];
    if (i + 1 == words.size()) {
      throw cairn::ConfigError({.what = "takes a value", .where = flag});
    }
    const std::string& word = words[i + 1];
    if (flag == "--data") {
      options.data = word;
    } else if (flag == "--layers") {
      options.layers = number(flag, word);
    } else if (flag == "--width") {
      options.width = number(flag, word);
    } else if (flag == "--block") {
      options.block = number(flag, word);
    } else if (flag == "--epochs") {
      options.epochs = number(flag, word);
    } else if (flag == "--steps") {
      options.steps = number(flag, word);
    } else {
      throw cairn::ConfigError({.what = "unknown flag", .where = flag});
    }
  }
  if (options.data.empty()) {
    throw cairn::ConfigError(
        {.what = "there is no text to learn", .remedy = "give --data FILE"});
  }
  return options;
}

ModelDescription description_of(
    const Options& options,
    std::int64_t characters) {
  ModelDescription model = cairn::model::gpt_lite_description(characters);
  model.layers = options.layers;
  model.hidden = options.width;
  model.heads = std::max<std::int64_t>(1, options.width / 64);
  model.key_value_heads = model.heads;
  model.head_size = options.width / model.heads;
  model.ffn = 4 * options.width;
  model.positions = options.block;
  return model;
}

struct GptLite : torch::nn::Module {
  explicit GptLite(const ModelDescription& description)
      : body(register_module("body", cairn::models::make_model(description))) {}

  /// Tokens [batch, block] to scores [batch, vocabulary, block].
  at::Tensor forward(const at::Tensor& tokens) {
    return body->forward({.tokens = tokens}).logits.transpose(1, 2);
  }

  std::shared_ptr<cairn::models::Transformer> body;
};

} // namespace

int main(int argc, char** argv) {
  try {
    const auto args = cairn::Args::parse(argc, argv, cairn::Args::Others::keep);
    const Options options = options_of(args.rest);
    const auto tokenizer = cairn::text::load_tokenizer(
        {.type = "CharTokenizer", .vocab_file = options.data});
    auto text = cairn::data::open_character_text(
        options.data,
        *tokenizer,
        {.block_size = static_cast<std::size_t>(options.block)});
    auto model = std::make_shared<GptLite>(description_of(
        options,
        static_cast<std::int64_t>(tokenizer->vocab_size())));
    auto [engine, optimizer, loader, schedule] = cairn::initialize(
        {.args = args,
         .model = model,
         .training_data =
             std::make_shared<const cairn::data::CharacterTextDataset>(
                 std::move(text.train))});

    for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
      double sum = 0;
      std::int64_t step = 0;
      loader.set_epoch(epoch);
      for (auto& batch : loader) {
        const at::Tensor scores = engine(batch["tokens"]).to(at::kFloat);
        const at::Tensor loss = torch::nn::functional::cross_entropy(
            scores,
            batch["labels"].to(scores.device()));
        engine.backward(loss);
        engine.step();
        sum += loss.item<double>();
        if (++step == options.steps) {
          break;
        }
      }
      if (engine.local_rank() <= 0) {
        std::printf(
            "Epoch: %lld, Step: %lld, Loss: %.4f\n",
            static_cast<long long>(epoch),
            static_cast<long long>(step),
            sum / static_cast<double>(std::max<std::int64_t>(1, step)));
        std::fflush(stdout);
      }
    }
  } catch (const cairn::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
