#include "models/small_models.h"

#include <cairn/models/pretraining.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Batches of the datasets, through the models.

namespace cairn::models::pretraining_test {
namespace {

using small::on_one_rank;
using small::some_tokens;
using small::tiny;
using ::testing::ElementsAre;

data::TensorBatch batch_of(
    std::vector<std::pair<std::string, at::Tensor>> tensors) {
  data::TensorBatch batch;
  batch.tensors = std::move(tensors);
  return batch;
}

TEST(Pretraining, TakesAGptBatch) {
  on_one_rank([] {
    const ModelDescription d = model::gpt_description(tiny);
    const at::Tensor tokens = some_tokens(1, 8);
    at::Tensor loss_mask = at::zeros({1, 8});
    loss_mask[0][6] = 1;
    const auto batch = batch_of(
        {{"tokens", tokens},
         {"labels", some_tokens(1, 8) + 1},
         {"loss_mask", loss_mask},
         {"position_ids", at::arange(8, at::kLong).view({1, 8})}});
    const auto model = make_model(d);
    const ModelInput input = pretraining_input(d, batch);
    const double loss = model->forward(input).loss.item<double>();
    const at::Tensor logits = model->forward({.tokens = tokens}).logits;
    const at::Tensor score = at::log_softmax(logits[0][6], 0);
    EXPECT_NEAR(
        loss,
        -score[input.labels[0][6].item<std::int64_t>()].item<double>(),
        1e-6);
    // Without labels the loss is 0, and the gradient is a number.
    ModelInput silent = input;
    silent.loss_mask = at::zeros({1, 8});
    EXPECT_EQ(model->forward(silent).loss.item<double>(), 0);
  });
}

TEST(Pretraining, KeepsDocumentsApart) {
  on_one_rank([] {
    const at::Tensor tokens = at::tensor({7, 9, 60, 7, 9, 3}, at::kLong);
    const at::Tensor mask = document_mask(tokens.unsqueeze(0), 60)[0];
    const auto row = [&](std::int64_t i) {
      const at::Tensor each = mask[i].to(at::kInt);
      return std::vector<int>(
          each.const_data_ptr<int>(),
          each.const_data_ptr<int>() + 6);
    };
    EXPECT_THAT(row(2), ElementsAre(1, 1, 1, 0, 0, 0));
    EXPECT_THAT(row(4), ElementsAre(0, 0, 0, 1, 1, 0));
    const at::Tensor begins = document_begins(tokens.unsqueeze(0), 60);
    const at::Tensor keys = at::arange(6, at::kLong);
    EXPECT_TRUE(at::equal(
        keys.ge(begins.unsqueeze(2)).logical_and(keys.le(keys.unsqueeze(1)))[0],
        mask));

    const ModelDescription d = model::gpt_description(tiny);
    const auto model = make_model(d);
    const at::Tensor positions =
        at::tensor({0, 1, 2, 0, 1, 2}, at::kLong).unsqueeze(0);
    const auto batch = batch_of(
        {{"tokens", tokens.unsqueeze(0)},
         {"labels", tokens.unsqueeze(0)},
         {"loss_mask", at::ones({1, 6})},
         {"position_ids", positions}});
    ModelInput input =
        pretraining_input(d, batch, {.reset_attention_after = 60});
    input.labels.reset();
    input.loss_mask.reset();
    const at::Tensor logits = model->forward(input).logits[0];
    EXPECT_TRUE(at::allclose(logits[1], logits[4], 1e-5, 1e-6));
  });
}

TEST(Pretraining, TakesBatchesOfTheOthers) {
  on_one_rank([] {
    at::Tensor labels = at::full({2, 8}, -1, at::kLong);
    labels[0][2] = 5;
    labels[1][4] = 6;
    const at::Tensor ones = at::ones({2, 8}, at::kLong);
    const at::Tensor asked = labels.ge(0).to(at::kLong);
    const auto bert = batch_of(
        {{"text", some_tokens()},
         {"types", ones},
         {"labels", labels},
         {"is_random", at::ones({2, 1}, at::kLong)},
         {"padding_mask", ones},
         {"loss_mask", asked},
         {"truncated", at::zeros({2, 1}, at::kLong)}});
    for (const model::BinaryHead head :
         {model::BinaryHead::with, model::BinaryHead::without}) {
      const ModelDescription d = model::bert_description(tiny, head);
      const ModelOutput output =
          make_model(d)->forward(pretraining_input(d, bert));
      ASSERT_EQ(output.losses.size(), head == model::BinaryHead::with ? 2 : 1);
      EXPECT_EQ(output.losses[0].first, "lm loss");
      EXPECT_NEAR(output.losses[0].second.item<double>(), std::log(61), 0.2);
      if (head == model::BinaryHead::with) {
        EXPECT_EQ(output.losses[1].first, "sop loss");
        EXPECT_NEAR(output.losses[1].second.item<double>(), std::log(2), 0.2);
      }
    }
    const auto t5 = batch_of(
        {{"text_enc", some_tokens()},
         {"text_dec", some_tokens().narrow(1, 0, 6)},
         {"labels", labels.narrow(1, 0, 6)},
         {"loss_mask", asked.narrow(1, 0, 6)},
         {"enc_mask", ones},
         {"dec_mask", ones.narrow(1, 0, 6)}});
    for (const ModelDescription& d :
         {model::t5_description(tiny), small::t5_with_relative_positions()}) {
      EXPECT_NEAR(
          make_model(d)->forward(pretraining_input(d, t5)).loss.item<double>(),
          std::log(61),
          0.2);
    }
    ModelDescription roberta = model::roberta_small_description();
    roberta.layers = 1;
    at::Tensor to_fill = at::full({2, 8}, 1, at::kLong);
    to_fill[0][2] = 5;
    const auto mlm = batch_of(
        {{"tokens", some_tokens()},
         {"labels", to_fill},
         {"attention_mask", ones}});
    const auto model = make_model(roberta);
    EXPECT_NEAR(
        model->forward(pretraining_input(roberta, mlm)).loss.item<double>(),
        std::log(50265),
        0.5);
  });
}

} // namespace
} // namespace cairn::models::pretraining_test
