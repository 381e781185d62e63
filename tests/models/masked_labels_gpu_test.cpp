// BERT's head on a GPU computes the tokens that have labels, and gives the loss
// and the gradients that it gives for all of them.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <cairn/model/presets.h>
#include <cairn/models/transformer.h>
#include <gtest/gtest.h>

#include <vector>

namespace cairn::models::masked_labels_test {
namespace {

TEST(MaskedLabels, AreEnoughForTheLossAndTheGradients) {
  const ModelDescription d = model::bert_description(
      {.layers = 1,
       .hidden = 64,
       .heads = 2,
       .sequence = 256,
       .vocabulary = 61});
  at::manual_seed(2);
  const auto numbers = at::TensorOptions(at::kCUDA).dtype(at::kLong);
  ModelInput input{.tokens = at::randint(61, {3, 256}, numbers)};
  input.labels = at::full({3, 256}, -1, numbers);
  // None in the first row, 40 in the second, 64 in the third.
  input.labels[1].slice(0, 10, 130, 3).fill_(7);
  input.labels[2].slice(0, 0, 256, 4).copy_(at::arange(64, numbers) % 61);
  input.loss_mask = at::rand({3, 256}, at::TensorOptions(at::kCUDA));
  input.next_sentence = at::zeros({3}, numbers);
  const auto trained = [&](std::int64_t most_labels) {
    const auto model = make_model(d, {.device = at::kCUDA});
    input.most_labels = most_labels;
    const ModelOutput output = model->forward(input);
    output.loss.backward();
    std::vector<at::Tensor> results{output.loss.detach()};
    for (const at::Tensor& each : model->parameters()) {
      results.push_back(each.grad());
    }
    return results;
  };
  const auto all = trained(0);
  const auto asked = trained(64);
  ASSERT_EQ(all.size(), asked.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    const double size = all[i].abs().max().item<double>();
    EXPECT_TRUE(at::allclose(asked[i], all[i], 1e-3, 1e-4 * size));
  }
}

} // namespace
} // namespace cairn::models::masked_labels_test
