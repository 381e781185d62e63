// The code of docs/models.md, as a program: a model from a checkpoint in the
// folder gpt2, one from a description, and one of our own that all ranks share.
//
//   cairn launch --num_gpus 2 models_example

#include <cairn/cairn.h>

#include <ATen/Functions.h>
#include <cairn/model/presets.h>
#include <cairn/models/load_model.h>
#include <cairn/models/pretraining.h>
#include <cairn/nn/block.h>
#include <cairn/nn/vocabulary.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace nn = cairn::nn;

class Net : public torch::nn::Module {
 public:
  explicit Net(const nn::LayerContext& context)
      : words_(register_module(
            "words",
            std::make_shared<nn::VocabularyEmbedding>(
                context.in("words"),
                nn::VocabularyOptions{.size = 1000},
                64))) {
    const nn::BlockOptions options{
        .attention =
            {.hidden = 64, .heads = 4, .key_value_heads = 4, .head_size = 16},
        .mlp = {.hidden = 64, .ffn = 256}};
    for (int i = 0; i < 4; ++i) {
      const std::string name = "block" + std::to_string(i);
      blocks_.push_back(register_module(
          name,
          std::make_shared<nn::Block>(context.in(name), options)));
    }
    head_.part = words_->part();
    head_.vocabulary = 1000;
    head_.group = context.group;
    head_.split_tokens = context.splits_tokens();
  }

  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& labels) {
    at::Tensor x = words_->forward(tokens);
    for (auto& block : blocks_) {
      x = block->forward(x, {}).hidden;
    }
    head_.weight = words_->weight();
    return nn::linear_cross_entropy(x, head_, labels) / labels.numel();
  }

 private:
  std::shared_ptr<nn::VocabularyEmbedding> words_;
  std::vector<std::shared_ptr<nn::Block>> blocks_;
  nn::VocabularyHead head_;
};

constexpr const char* config = R"({
  "train_batch_size": 4,
  "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}
})";

/// Rows that count up, each from elsewhere: a text with one token more than
/// `length`.
at::Tensor counting(std::int64_t length, std::int64_t vocabulary) {
  const at::Tensor begins = at::arange(4, at::kLong).view({4, 1}) * 37;
  return at::remainder(begins + at::arange(length + 1), vocabulary);
}

double run_stored() {
  const at::Tensor text = counting(32, 512);
  const at::Tensor tokens = text.narrow(1, 0, 32);
  const at::Tensor next_tokens = text.narrow(1, 1, 32);
  auto model = cairn::models::load_model("gpt2");
  auto output = model->forward({.tokens = tokens, .labels = next_tokens});
  output.loss.backward();
  return output.loss.item<double>();
}

double train_described() {
  auto description = cairn::model::gpt_description(
      {.layers = 6,
       .hidden = 384,
       .heads = 6,
       .sequence = 256,
       .vocabulary = 4096});
  auto model = cairn::models::make_model(description);
  auto engine = cairn::initialize({.model = model, .config = config}).engine;
  const at::Tensor text = counting(32, 4096);
  cairn::data::TensorBatch batch;
  batch.tensors = {
      {"tokens", text.narrow(1, 0, 32)},
      {"labels", text.narrow(1, 1, 32)},
      {"loss_mask", at::ones({4, 32})},
      {"position_ids", at::arange(32).expand({4, 32})}};
  double loss = 0;
  for (int step = 0; step < 3; ++step) {
    const auto input = cairn::models::pretraining_input(description, batch);
    auto output = engine.forward<cairn::models::ModelOutput>(input);
    engine.backward(output.loss);
    engine.step();
    loss = output.loss.item<double>();
  }
  return loss;
}

double train_own(const cairn::World& world) {
  const cairn::ProcessMesh mesh(world.group(), {.tensor = world.size()});
  const auto net = std::make_shared<Net>(
      nn::LayerContext{.group = mesh.along(cairn::Axis::tensor)});
  auto engine =
      cairn::initialize({.model = net, .mesh = mesh, .config = config}).engine;
  const at::Tensor text = counting(32, 1000);
  double loss = 0;
  for (int step = 0; step < 40; ++step) {
    const at::Tensor value =
        engine(text.narrow(1, 0, 32), text.narrow(1, 1, 32));
    engine.backward(value);
    engine.step();
    loss = value.item<double>();
  }
  return loss;
}

} // namespace

int main() {
  const auto world = cairn::init_distributed();
  const double own = train_own(world);
  if (world.rank() == 0) {
    std::printf("own net, shared by %d: loss %.3f\n", world.size(), own);
  }
  if (world.size() == 1) {
    std::printf("stored gpt2: loss %.3f\n", run_stored());
    std::printf("described gpt: loss %.3f\n", train_described());
  }
}
