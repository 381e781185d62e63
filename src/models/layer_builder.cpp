#include "models/layer_builder.h"

#include "models/attention_mask.h"
#include "models/language_head.h"
#include "models/masked_head.h"
#include "models/text_positions.h"

#include <cairn/nn/tensor_parallel.h>

#include <functional>
#include <memory>
#include <utility>

namespace cairn::models {
namespace {

std::string joined(const std::string& name, const std::string& last) {
  return name.empty() ? last : name + "." + last;
}

StackInput stack_input(const Stream& stream, Role role) {
  switch (role) {
    case Role::encoder:
      return {.mask = attention_mask(stream.mask, false)};
    case Role::decoder:
      return {
          .mask = attention_mask(stream.mask, true),
          .positions = stream.positions};
    case Role::crossing_decoder:
      break;
  }
  return {
      .mask = attention_mask(stream.decoder_mask, true),
      .memory = stream.memory,
      .memory_mask = attention_mask(stream.mask, false)};
}

/// build() of a layer that is made from a context and other values.
template <typename Module, typename... Values>
std::function<std::shared_ptr<torch::nn::Module>()> maker(
    nn::LayerContext context,
    Values... values) {
  return [context = std::move(context), ... values = std::move(values)] {
    return std::make_shared<Module>(context, values...);
  };
}

} // namespace

LayerBuilder::LayerBuilder(
    const ModelDescription& d,
    const ModelOptions& options,
    Fields inputs)
    : d_(d), context_(layer_context(options)), list_(std::move(inputs)) {}

ModelLayer LayerBuilder::words(const char* type) const {
  ModelLayer layer{.name = "embedding.word", .type = type};
  if (d_.tied_head || d_.family == checkpoints::ModelFamily::t5) {
    layer.tied_key = layer.name;
  }
  layer.build = [d = d_, context = context_.in("embedding").in("word")] {
    return make_word_embedding(context, d);
  };
  return layer;
}

void LayerBuilder::add_embedding(Field tokens) {
  LayerList::Change beside_words{.drops = {tokens}, .adds = {&Stream::hidden}};
  const bool counts = counts_text(d_) && !list_.carries(&Stream::positions);
  if (counts) { // of tokens, which go no further
    beside_words.adds.push_back(&Stream::positions);
  }
  list_.add<nn::VocabularyEmbedding>(
      words("embedding"),
      [tokens,
       counts,
       d = d_](const nn::VocabularyEmbedding& word, Stream& stream) {
        stream.hidden = word.forward(stream.*tokens);
        if (counts) {
          stream.positions = text_positions(stream.*tokens, d);
        }
      },
      beside_words);
  ModelLayer rest{.name = "embedding", .type = "embedding"};
  if (d_.family == checkpoints::ModelFamily::t5) { // its stacks have one
    rest.tied_key = rest.name;
  }
  rest.build = maker<Embedding>(
      context_.in("embedding"),
      d_,
      Embedding::Words::elsewhere);
  LayerList::Change change{.drops = {&Stream::token_types}};
  if (d_.position != checkpoints::PositionKind::rotary) {
    change.drops.push_back(&Stream::positions);
  }
  list_.add<Embedding>(
      std::move(rest),
      [](const Embedding& embedding, Stream& stream) {
        stream.hidden = embedding.finish(
            stream.hidden,
            {stream.positions, stream.token_types});
      },
      change);
}

void LayerBuilder::add_stack(const StackOptions& stack, const Place& place) {
  const nn::LayerContext context = stack_context(
      place.name.empty() ? context_ : context_.in(place.name),
      stack.layers);
  if (d_.position == checkpoints::PositionKind::relative) {
    add_relative_positions(context, place.name, stack.role);
  }
  add_blocks(context, stack, place);
  if (d_.norm_place == checkpoints::NormPlace::before) {
    add_final_norm(context, place);
  }
}

void LayerBuilder::add_relative_positions(
    const nn::LayerContext& context,
    const std::string& name,
    Role role) {
  ModelLayer layer{.name = joined(name, "relative_bias"), .type = "embedding"};
  layer.build = maker<nn::RelativeBias>(
      context.in("relative_bias"),
      relative_bias_options(d_, role));
  list_.add<nn::RelativeBias>(
      std::move(layer),
      [](const nn::RelativeBias& bias, Stream& stream) {
        // A copy, since the parameter itself may live in parts (ZeRO-3).
        stream.relative = bias.weight().clone();
      },
      {.adds = {&Stream::relative}});
}

void LayerBuilder::add_blocks(
    const nn::LayerContext& context,
    const StackOptions& stack,
    const Place& place) {
  const nn::BlockOptions options = block_options(d_, stack.role);
  const auto forward = [role = stack.role,
                        relative = relative_bias_options(d_, stack.role),
                        parts = context.splits_tokens()
                            ? context.group.size()
                            : 1](const nn::Block& block, Stream& stream) {
    at::Tensor bias;
    if (stream.relative.defined()) {
      const std::int64_t sequence = stream.hidden.size(1) * parts;
      bias = nn::relative_bias(stream.relative, sequence, sequence, relative);
    }
    const nn::Block::Output output = block.forward(
        stream.hidden,
        block_input(stack_input(stream, role), bias, role));
    stream.hidden = output.hidden;
    if (output.balance_loss.defined()) {
      stream.balance_loss =
          with_balance_loss(stream.balance_loss, output.balance_loss.view({1}));
    }
  };
  for (std::int64_t i = 0; i < stack.layers; ++i) {
    const std::string number = std::to_string(i);
    ModelLayer layer{
        .name = joined(place.name, "layers." + number),
        .type = "block"};
    layer.build = maker<nn::Block>(
        context.in("layers").in(number),
        block_options(options, d_, i));
    LayerList::Change change;
    if (checkpoints::experts_in_layer(d_, i) > 0 &&
        !list_.carries(&Stream::balance_loss)) {
      change.adds = {&Stream::balance_loss};
    }
    if (i + 1 == stack.layers) {
      change.drops = place.drops;
      change.drops.push_back(&Stream::relative);
    }
    list_.add<nn::Block>(std::move(layer), forward, change);
  }
}

void LayerBuilder::add_final_norm(
    const nn::LayerContext& context,
    const Place& place) {
  ModelLayer layer{.name = joined(place.name, "final_norm"), .type = "norm"};
  layer.build =
      maker<nn::Norm>(context.in("final_norm"), d_.hidden, norm_options(d_));
  list_.add<nn::Norm>(
      std::move(layer),
      [result = place.result](const nn::Norm& norm, Stream& stream) {
        stream.*result = norm.forward(stream.hidden);
      },
      {.drops = {&Stream::hidden}, .adds = {place.result}});
}

void LayerBuilder::add_masked_heads() {
  // Every rank computes them for all tokens: the first one joins these.
  bool split = context_.splits_tokens();
  const auto joined_tokens = [&] {
    return [split = std::exchange(split, false),
            group = context_.group](const Stream& stream) {
      return split ? nn::gather_tokens(stream.hidden, group) : stream.hidden;
    };
  };
  if (d_.pooler) {
    ModelLayer layer{.name = "pooler", .type = "head"};
    layer.build = maker<nn::Linear>(
        context_.in("pooler"),
        nn::LinearOptions{d_.hidden, d_.hidden});
    const bool used = d_.next_sentence_head;
    list_.add<nn::Linear>(
        std::move(layer),
        [used,
         join = joined_tokens()](const nn::Linear& pooler, Stream& stream) {
          stream.hidden = join(stream);
          if (used) {
            stream.sentences = pooled(pooler, stream.hidden);
          }
        },
        {.adds = used ? Fields{&Stream::sentences} : Fields{}});
  }
  if (d_.next_sentence_head) {
    ModelLayer layer{.name = "next_sentence", .type = "head"};
    layer.build = maker<nn::Linear>(
        context_.in("next_sentence"),
        nn::LinearOptions{d_.hidden, 2});
    list_.add<nn::Linear>(
        std::move(layer),
        [](const nn::Linear& head, Stream& stream) {
          stream.sentences = head.forward(stream.sentences);
        });
  }
  if (d_.masked_head) {
    ModelLayer layer{.name = "mlm", .type = "head"};
    layer.build = maker<MaskedHead>(context_.in("mlm"), d_);
    list_.add<MaskedHead>(
        std::move(layer),
        [join = joined_tokens()](const MaskedHead& head, Stream& stream) {
          stream.hidden = head.forward(join(stream));
          stream.head_bias = head.bias().clone(); // as relative positions are
        },
        {.adds = {&Stream::head_bias}});
  }
}

void LayerBuilder::add_head() {
  // The bias first, which is small: a stage may end behind it.
  if (!d_.tied_head || d_.head_bias) {
    ModelLayer layer{.name = "head", .type = "head"};
    layer.build = maker<LanguageHead>(context_.in("head"), d_);
    LayerList::Change change;
    if (!d_.tied_head) {
      change.adds.push_back(&Stream::head_weight);
    }
    const bool biased = d_.head_bias && !d_.masked_head;
    if (biased) {
      change.adds.push_back(&Stream::head_bias);
    }
    list_.add<LanguageHead>(
        std::move(layer),
        [biased](const LanguageHead& head, Stream& stream) {
          stream.head_weight = head.weight();
          if (biased) {
            stream.head_bias = head.bias().clone();
          }
        },
        change);
  }
  if (d_.tied_head) {
    list_.add<nn::VocabularyEmbedding>(
        words("head"),
        [](const nn::VocabularyEmbedding& word, Stream& stream) {
          stream.head_weight = word.weight();
        },
        {.adds = {&Stream::head_weight}});
  }
}

} // namespace cairn::models
