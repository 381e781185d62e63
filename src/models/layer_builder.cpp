#include "models/layer_builder.h"

#include "models/attention_mask.h"
#include "models/internal/token_dropping.h"
#include "models/language_head.h"
#include "models/masked_head.h"
#include "models/text_positions.h"
#include "nn/internal/relative_bias.h"

#include <ATen/ops/zeros.h>
#include <cairn/base/error.h>
#include <cairn/model/parameters.h>
#include <cairn/nn/tensor_parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

namespace cairn::models {
namespace {

std::string joined(const std::string& name, const std::string& last) {
  return name.empty() ? last : name + "." + last;
}

nn::RelativeBiasOptions relative_bias_options(
    const ModelDescription& d,
    Role role) {
  return {
      .heads = d.heads,
      .buckets = d.relative_buckets,
      .distance = d.relative_distance,
      .bidirectional = role == Role::encoder};
}

/// The padding of the tokens that the blocks of a stack have.
const at::Tensor& padding_of(const Stream& stream, Role role) {
  return role == Role::crossing_decoder ? stream.decoder_mask : stream.mask;
}

/// The masks and positions that all blocks of a stack need.
nn::BlockInput seen_by_blocks(const Stream& stream, Role role) {
  switch (role) {
    case Role::encoder:
      return {
          .mask = attention_mask(stream.mask, false),
          .samples = stream.samples};
    case Role::decoder:
      return {
          .mask = attention_mask(stream.mask, true),
          .positions = stream.positions,
          .samples = stream.samples,
          .first_seen = stream.first_seen.defined() ? stream.first_seen.cpu()
                                                    : at::Tensor()};
    case Role::crossing_decoder:
      break;
  }
  return {
      .mask = attention_mask(stream.decoder_mask, true),
      .memory = stream.memory,
      .memory_mask = attention_mask(stream.mask, false),
      .samples = stream.samples};
}

/// Adds the bias of relative positions to the blocks' input.
void add_bias(nn::BlockInput& input, const at::Tensor& bias, Role role) {
  at::Tensor visible = input.mask;
  if (!visible.defined() && role != Role::encoder) {
    visible = causal_mask(bias.size(2), bias.device());
  }
  input.mask = visible.defined() ? bias.masked_fill(
                                       visible.logical_not(),
                                       -std::numeric_limits<double>::infinity())
                                 : bias;
}

/// The bias of relative positions, and padding, by place: what a GPU's kernel
/// adds to scores itself.
nn::PlacedScores placed_scores(
    const at::Tensor& by_distance,
    const at::Tensor& padding) {
  nn::PlacedScores placed{.by_distance = by_distance};
  if (padding.defined()) {
    placed.by_key =
        at::zeros(padding.sizes(), by_distance.options().requires_grad(false))
            .masked_fill_(
                padding.eq(0),
                -std::numeric_limits<double>::infinity());
  }
  return placed;
}

/// A sum of balance losses with one more; both may be undefined.
at::Tensor with_balance_loss(const at::Tensor& sum, const at::Tensor& one) {
  return !one.defined() ? sum : !sum.defined() ? one : sum + one;
}

/// The context of a stack's blocks: initial weights by its depth.
nn::LayerContext stack_context(nn::LayerContext context, std::int64_t layers) {
  if (context.initial) {
    context.initial->output_std =
        model::output_deviation(context.initial->std, layers);
  }
  return context;
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
    : d_(d),
      layers_(model::layers_of(d)),
      context_(layer_context(options)),
      options_(options),
      list_(std::move(inputs)) {}

StreamLayer LayerBuilder::next(const std::string& name) {
  model::Layer& layer = layers_.at(list_.layers().size());
  if (layer.name != name) {
    throw InternalError(
        {.what = "layers are built in another order than the model's",
         .values = fmt::format("{}, not {}", name, layer.name)});
  }
  return {std::move(layer)};
}

StreamLayer LayerBuilder::next_words() {
  StreamLayer layer = next("embedding.word");
  layer.build = [d = d_, context = context_.in("embedding").in("word")] {
    return make_word_embedding(context, d);
  };
  return layer;
}

void LayerBuilder::add_embedding(Field tokens) {
  LayerList::Change beside_words{.drops = {tokens}, .adds = {&Stream::hidden}};
  const bool counts = counts_text(d_);
  if (counts && !list_.carries(&Stream::positions)) {
    beside_words.adds.push_back(&Stream::positions);
  }
  list_.add<nn::VocabularyEmbedding>(
      next_words(),
      [tokens,
       counts,
       d = d_](const nn::VocabularyEmbedding& word, Stream& stream) {
        stream.hidden = word.forward(stream.*tokens);
        if (counts && !stream.positions.defined()) {
          stream.positions = text_positions(stream.*tokens, d);
        }
      },
      beside_words);
  StreamLayer rest = next("embedding");
  rest.build = maker<Embedding>(context_.in("embedding"), d_);
  LayerList::Change change{.drops = {&Stream::token_types}};
  if (d_.position != model::PositionKind::rotary) {
    change.drops.push_back(&Stream::positions);
  }
  list_.add<Embedding>(
      std::move(rest),
      [text = tokens == Field(&Stream::decoder_tokens)
           ? 1
           : 0](const Embedding& embedding, Stream& stream) {
        stream.hidden = embedding.forward(
            stream.hidden,
            {.positions = stream.positions,
             .token_types = stream.token_types,
             .samples = stream.samples,
             .text = text});
      },
      change);
}

void LayerBuilder::add_stack(const Stack& stack) {
  const nn::LayerContext context = stack_context(
      stack.name.empty() ? context_ : context_.in(stack.name),
      stack.layers);
  if (d_.position == model::PositionKind::relative) {
    add_relative_positions(context, stack);
  }
  add_blocks(context, stack);
  if (d_.norm_place == model::NormPlace::before) {
    add_final_norm(context, stack);
  }
}

void LayerBuilder::add_relative_positions(
    const nn::LayerContext& context,
    const Stack& stack) {
  StreamLayer layer = next(joined(stack.name, "relative_bias"));
  layer.build = maker<nn::RelativeBias>(
      context.in("relative_bias"),
      relative_bias_options(d_, stack.role));
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
    const Stack& stack) {
  nn::BlockOptions options = block_options(d_, stack.role);
  options.attention.overlap_tokens = options_.overlap_tokens;
  options.mlp.overlap_tokens = options_.overlap_tokens;
  const auto prepare = [role = stack.role,
                        relative = relative_bias_options(d_, stack.role),
                        parts = context.splits_tokens() ? context.group.size()
                                                        : 1](Stream& stream) {
    stream.block_input = seen_by_blocks(stream, role);
    if (!stream.relative.defined()) {
      return;
    }
    const std::int64_t sequence = stream.hidden.size(1) * parts;
    const at::Tensor& padding = padding_of(stream, role);
    if (stream.hidden.is_cuda() && (!padding.defined() || padding.dim() == 2)) {
      stream.block_input->mask = at::Tensor();
      stream.block_input->placed = placed_scores(
          nn::relative_bias_by_distance(
              stream.relative,
              sequence,
              sequence,
              relative),
          padding);
    } else {
      add_bias(
          *stream.block_input,
          nn::relative_bias(stream.relative, sequence, sequence, relative),
          role);
    }
  };
  for (std::int64_t i = 0; i < stack.layers; ++i) {
    const std::string number = std::to_string(i);
    StreamLayer layer = next(joined(stack.name, "layers." + number));
    nn::LayerContext own = context.in("layers").in(number);
    if (i >= options_.first_blocks_without_fp8 &&
        i < stack.layers - options_.last_blocks_without_fp8) {
      own.fp8 = options_.fp8;
    }
    nn::BlockOptions block = block_options(options, d_, i);
    block.recompute_mlp =
        block.mixture ? options_.recompute_mixtures : options_.recompute_mlps;
    block.recompute_norms = options_.recompute_norms;
    if (block.mixture && options_.recompute_expert_activations) {
      block.mixture->activated = nn::Activated::computed_again;
    }
    layer.build = maker<nn::Block>(std::move(own), std::move(block));
    layer.prepare = prepare;
    LayerList::Change change;
    if (model::experts_in_layer(d_, i) > 0 &&
        !list_.carries(&Stream::balance_loss)) {
      change.adds = {&Stream::balance_loss};
    }
    const bool last = i + 1 == stack.layers;
    if (last) {
      change.drops = stack.drops;
      change.drops.push_back(&Stream::relative);
    }
    const auto dropping = std::ranges::find(options_.dropping_layers, i);
    const std::int64_t row = dropping == options_.dropping_layers.end()
        ? -1
        : dropping - options_.dropping_layers.begin();
    list_.add<nn::Block>(
        std::move(layer),
        [prepare, last, row](const nn::Block& block, Stream& stream) {
          if (!stream.block_input) {
            prepare(stream);
          }
          const nn::Block::Output output = row >= 0 && stream.kept.defined()
              ? forward_kept(
                    block,
                    stream.hidden,
                    *stream.block_input,
                    stream.kept.select(0, row))
              : block.forward(stream.hidden, *stream.block_input);
          stream.hidden = output.hidden;
          if (output.balance_loss.defined()) {
            stream.balance_loss = with_balance_loss(
                stream.balance_loss,
                output.balance_loss.view({1}));
          }
          if (last) {
            stream.block_input.reset();
          }
        },
        change);
  }
}

void LayerBuilder::add_final_norm(
    const nn::LayerContext& context,
    const Stack& stack) {
  StreamLayer layer = next(joined(stack.name, "final_norm"));
  layer.build =
      maker<nn::Norm>(context.in("final_norm"), d_.hidden, norm_options(d_));
  list_.add<nn::Norm>(
      std::move(layer),
      [result = stack.result](const nn::Norm& norm, Stream& stream) {
        stream.*result = norm.forward(stream.hidden);
      },
      {.drops = {&Stream::hidden}, .adds = {stack.result}});
}

void LayerBuilder::add_masked_heads() {
  // Every rank computes these heads for all tokens: the first head gathers
  // them.
  bool split = context_.splits_tokens();
  const auto joined_tokens = [&] {
    return [split = std::exchange(split, false),
            group = context_.group](const Stream& stream) {
      return split ? nn::gather_tokens(stream.hidden, group) : stream.hidden;
    };
  };
  if (d_.pooler) {
    StreamLayer layer = next("pooler");
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
    StreamLayer layer = next("next_sentence");
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
    StreamLayer layer = next("mlm");
    layer.build = maker<MaskedHead>(context_.in("mlm"), d_);
    list_.add<MaskedHead>(
        std::move(layer),
        [join = joined_tokens()](const MaskedHead& head, Stream& stream) {
          stream.hidden = join(stream);
          if (stream.labels.defined() && !stream.want_logits) {
            Asked asked(stream.hidden, stream);
            stream.hidden = std::move(asked.hidden);
            stream.labels = std::move(asked.labels);
            stream.loss_mask = std::move(asked.loss_mask);
          }
          stream.hidden = head.forward(stream.hidden);
          // A copy, like relative positions.
          stream.head_bias = head.bias().clone();
        },
        {.adds = {&Stream::head_bias}});
  }
}

void LayerBuilder::add_head() {
  if (!d_.tied_head || d_.head_bias) {
    StreamLayer layer = next("head");
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
        next_words(),
        [](const nn::VocabularyEmbedding& word, Stream& stream) {
          stream.head_weight = word.weight();
        },
        {.adds = {&Stream::head_weight}});
  }
}

} // namespace cairn::models
