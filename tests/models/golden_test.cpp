// Every model, with every way to share its layers, against transformers'
// logits, loss and gradients of each parameter.

#include "models/internal/load_weights.h"
#include "models/whole_gradients.h"
#include "support/golden_tensors.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <cairn/base/file.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/models/transformer.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <tuple>

namespace cairn::models::golden_test {
namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, at::Tensor>;

fs::path golden(const std::string& name) {
  return fs::path(CAIRN_GOLDEN_DIR) / "models" / name;
}

/// transformers shifts labels itself.
at::Tensor next_tokens(const at::Tensor& labels) {
  return at::cat(
      {labels.narrow(1, 1, labels.size(1) - 1),
       at::full({labels.size(0), 1}, -100, labels.options())},
      1);
}

at::Tensor decoder_inputs(const at::Tensor& labels) {
  const at::Tensor start = at::zeros({labels.size(0), 1}, labels.options());
  return at::cat({start, labels.narrow(1, 0, labels.size(1) - 1)}, 1)
      .clamp_min(0);
}

ModelInput input_of(const ModelDescription& d, const Tensors& io) {
  ModelInput input{.tokens = io.at("input_ids"), .want_logits = true};
  input.labels = io.at("labels");
  switch (d.family) {
    case model::ModelFamily::gpt2:
    case model::ModelFamily::llama:
      input.labels = next_tokens(input.labels);
      break;
    case model::ModelFamily::bert:
    case model::ModelFamily::roberta:
      input.mask = io.at("attention_mask");
      input.token_types = io.at("token_type_ids");
      input.next_sentence = io.at("next_sentence_label");
      break;
    case model::ModelFamily::t5:
      input.mask = io.at("attention_mask");
      input.decoder_tokens = decoder_inputs(input.labels);
      break;
  }
  return input;
}

void expect_close(
    const at::Tensor& ours,
    const at::Tensor& theirs,
    const std::string& what) {
  ASSERT_EQ(ours.sizes(), theirs.sizes()) << what;
  EXPECT_TRUE(at::allclose(ours, theirs, 1e-5, 1e-5))
      << what << " differ by " << (ours - theirs).abs().max().item<double>();
}

/// Gradients under the names and in the parts that transformers has.
Tensors as_theirs(const ModelDescription& d, const Tensors& gradients) {
  checkpoints::NamedTensors named;
  for (const auto& [name, gradient] : gradients) {
    named.emplace_back(
        name,
        checkpoints::LazyTensor{
            gradient.scalar_type(),
            gradient.sizes().vec(),
            [gradient = gradient] { return gradient; }});
  }
  const testing::TemporaryFolder folder;
  checkpoints::write_huggingface(folder / "model", d, named);
  return testing::golden_tensors(folder / "model/model.safetensors");
}

struct Sharing {
  const char* name;
  int ranks = 1;
  bool sequence_parallel = false;
  std::int64_t padding = 0; ///< rows beyond the vocabulary
  bool recompute = false;
};

constexpr Sharing sharings[] = {
    {"Alone"},
    {"AlonePadded", 1, false, 13},
    {"AloneRecomputed", 1, false, 0, true},
    {"Tensor2", 2},
    {"Tensor2Padded", 2, false, 3},
    {"Tensor2Sequence", 2, true},
    {"Tensor2SequenceRecomputed", 2, true, 0, true},
    {"Tensor4SequencePadded", 4, true, 1030},
    {"Tensor4", 4},
};

class Golden
    : public ::testing::TestWithParam<std::tuple<const char*, Sharing>> {};

void compare(
    const std::string& name,
    const Sharing& sharing,
    const distributed::ProcessGroup& group) {
  auto given = checkpoints::read_huggingface(golden(name));
  given.description.padded_vocabulary += sharing.padding;
  ModelOptions options{
      .tensor_group = group,
      .sequence_parallel = sharing.sequence_parallel};
  if (sharing.recompute) {
    options.recompute.emplace();
  }
  const auto model = make_model(given.description, options);
  load_weights(*model, given.description, given.tensors);

  const Tensors io = testing::golden_tensors(golden(name) / "io.safetensors");
  const auto expected =
      nlohmann::json::parse(read_file(golden(name) / "expected.json", 1 << 20));
  const ModelOutput output = model->forward(input_of(given.description, io));
  EXPECT_NEAR(output.loss.item<double>(), expected["loss"], 1e-5);
  const bool bert = name == "bert";
  expect_close(
      output.logits,
      io.at(bert ? "prediction_logits" : "logits"),
      "logits");
  if (bert) {
    expect_close(
        output.next_sentence_logits,
        io.at("seq_relationship_logits"),
        "next sentence logits");
  }
  output.loss.backward();
  const Tensors whole = testing::whole_gradients(*model, group);
  if (group.rank() != 0) {
    return;
  }
  const Tensors gradients = as_theirs(given.description, whole);
  for (const auto& [key, norm] : expected["grad_norms"].items()) {
    ASSERT_TRUE(gradients.contains(key)) << key;
    const double theirs = norm;
    EXPECT_NEAR(
        gradients.at(key).norm().item<double>(),
        theirs,
        1e-5 * std::max(theirs, 0.01))
        << key;
  }
}

TEST_P(Golden, IsWhatTransformersComputes) {
  const auto& [name, sharing] = GetParam();
  testing::run_ranks(
      sharing.ranks,
      [&, name = name, sharing = sharing](const auto& group) {
        compare(name, sharing, group);
      });
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    Golden,
    ::testing::Combine(
        ::testing::Values(
            "gpt2",
            "llama",
            "bert",
            "t5_relu",
            "t5_gated_gelu",
            "qwen2",
            "qwen3",
            "gpt_neox",
            "mixtral"),
        ::testing::ValuesIn(sharings)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param)) + "_" +
          std::get<1>(info.param).name;
    });

TEST(CoreFamilies, HaveTheLogitsOfMegatronCore) {
  for (const std::string name : {"experts", "qwen", "bert", "t5"}) {
    const fs::path folder =
        fs::path(CAIRN_GOLDEN_DIR) / "checkpoints_core/families" / name;
    const Tensors io = testing::golden_tensors(folder / "io.safetensors");
    for (const char* format : {"torch", "torch_dist"}) {
      const auto read = checkpoints::read_megatron(folder / format);
      const auto model = make_model(read.description);
      load_weights(*model, read.description, read.tensors);
      model->eval();
      ModelInput input{.tokens = io.at("input_ids"), .want_logits = true};
      if (name == "bert") {
        input.token_types = io.at("token_types");
      } else if (name == "t5") {
        input.decoder_tokens = io.at("decoder_input_ids");
      }
      const ModelOutput output = model->forward(input);
      expect_close(output.logits, io.at("logits"), name + " " + format);
      if (name == "bert") {
        expect_close(
            output.next_sentence_logits,
            io.at("sentence_logits"),
            name + " sentences " + format);
      }
    }
  }
}

} // namespace
} // namespace cairn::models::golden_test
