#include <cairn/models/model_layers.h>

#include "models/attention_mask.h"
#include "models/language_head.h"
#include "models/stack.h"

#include <cairn/base/error.h>

namespace cairn::models {
namespace {

/// What goes from layer to layer beside the hidden states, and where it stands.
struct Stream {
  std::size_t positions = 0; ///< 0: not there
  std::size_t mask = 0;

  at::Tensor positions_in(const Tensors& tensors) const {
    return positions > 0 ? tensors.at(positions) : at::Tensor();
  }
  at::Tensor mask_in(const Tensors& tensors) const {
    return mask > 0 ? tensors.at(mask) : at::Tensor();
  }
};

Tensors with_first(Tensors tensors, at::Tensor first) {
  tensors.at(0) = std::move(first);
  return tensors;
}

template <typename Module>
Module& as(torch::nn::Module& module) {
  return dynamic_cast<Module&>(module);
}

/// Builds the layers of one model one by one.
class LayerBuilder {
 public:
  LayerBuilder(
      const ModelDescription& d,
      const ModelOptions& options,
      const LayerInputs& inputs)
      : d_(d), context_(stack_context(layer_context(options), d.layers)) {
    std::size_t next = 1;
    if (inputs.positions) {
      stream_.positions = next++;
    }
    if (inputs.mask) {
      stream_.mask = next;
    }
  }

  ModelLayer words() const {
    ModelLayer layer = tied_words("embedding");
    layer.forward = [](torch::nn::Module& module, const Tensors& given) {
      return with_first(
          given,
          as<nn::VocabularyEmbedding>(module).forward(given.at(0)));
    };
    return layer;
  }

  ModelLayer positions() const {
    ModelLayer layer{.name = "embedding", .type = "embedding"};
    layer.build = [d = d_, context = context_.in("embedding")] {
      return std::make_shared<Embedding>(
          context,
          d,
          Embedding::Words::elsewhere);
    };
    layer.forward =
        [stream = stream_](torch::nn::Module& module, const Tensors& given) {
          return with_first(
              given,
              as<Embedding>(module).finish(
                  given.at(0),
                  {.positions = stream.positions_in(given)}));
        };
    return layer;
  }

  ModelLayer block(std::int64_t index, const nn::BlockOptions& options) const {
    const std::string name = std::to_string(index);
    ModelLayer layer{.name = "layers." + name, .type = "block"};
    layer.build = [options, context = context_.in("layers").in(name)] {
      return std::make_shared<nn::Block>(context, options);
    };
    layer.forward =
        [stream = stream_](torch::nn::Module& module, const Tensors& given) {
          return with_first(
              given,
              as<nn::Block>(module).forward(
                  given.at(0),
                  {.mask = attention_mask(stream.mask_in(given), true),
                   .positions = stream.positions_in(given)}));
        };
    return layer;
  }

  ModelLayer norm() const {
    ModelLayer layer{.name = "final_norm", .type = "norm"};
    layer.build = [d = d_, context = context_.in("final_norm")] {
      return std::make_shared<nn::Norm>(context, d.hidden, norm_options(d));
    };
    layer.forward = [](torch::nn::Module& module, const Tensors& given) {
      return Tensors{as<nn::Norm>(module).forward(given.at(0))};
    };
    return layer;
  }

  /// Passes the head's parameters on, so that the loss can do with the scores
  /// what it wants. A tied head is the words' layer once more.
  std::vector<ModelLayer> head() const {
    std::vector<ModelLayer> layers;
    if (d_.tied_head) {
      layers.push_back(tied_words("head"));
      layers[0].forward = [](torch::nn::Module& module, const Tensors& given) {
        return Tensors{
            given.at(0),
            as<nn::VocabularyEmbedding>(module).weight()};
      };
    }
    if (!d_.tied_head || d_.head_bias) {
      ModelLayer layer{.name = "head", .type = "head"};
      layer.build = [d = d_, context = context_.in("head")] {
        return std::make_shared<LanguageHead>(context, d);
      };
      layer.forward = [](torch::nn::Module& module, const Tensors& given) {
        Tensors outputs = given;
        const auto& own = as<LanguageHead>(module);
        for (const at::Tensor& parameter : {own.weight(), own.bias()}) {
          if (parameter.defined()) {
            outputs.push_back(parameter);
          }
        }
        return outputs;
      };
      layers.push_back(std::move(layer));
    }
    return layers;
  }

  nn::VocabularyHead vocabulary() const {
    return vocabulary_head(context_, d_);
  }

 private:
  ModelLayer tied_words(const char* type) const {
    ModelLayer layer{.name = "embedding.word", .type = type};
    if (d_.tied_head) {
      layer.tied_key = layer.name;
    }
    layer.build = [d = d_, context = context_.in("embedding").in("word")] {
      return make_word_embedding(context, d);
    };
    return layer;
  }

  ModelDescription d_;
  nn::LayerContext context_;
  Stream stream_;
};

/// Of what the last layer returned: hidden states, weight, perhaps a bias.
nn::VocabularyHead filled(nn::VocabularyHead head, const Tensors& outputs) {
  head.weight = outputs.at(1);
  if (outputs.size() > 2) {
    head.bias = outputs[2];
  }
  return head;
}

} // namespace

LayeredModel model_layers(
    const ModelDescription& d,
    const ModelOptions& options,
    const LayerInputs& inputs) {
  checkpoints::check(d, "the model");
  if (d.family != checkpoints::ModelFamily::gpt2 &&
      d.family != checkpoints::ModelFamily::llama) {
    throw ConfigError(
        {.what = "only left-to-right models run in a pipeline",
         .where = "pipeline-model-parallel-size",
         .values = std::string(checkpoints::name_of(d.family)),
         .remedy = "use tensor and data parallelism, and ZeRO"});
  }
  const LayerBuilder builder(d, options, inputs);
  LayeredModel model;
  model.layers.push_back(builder.words());
  model.layers.push_back(builder.positions());
  const nn::BlockOptions block = block_options(d, Role::decoder);
  for (std::int64_t i = 0; i < d.layers; ++i) {
    model.layers.push_back(builder.block(i, block));
  }
  model.layers.push_back(builder.norm());
  for (ModelLayer& layer : builder.head()) {
    model.layers.push_back(std::move(layer));
  }
  model.loss = [head = builder.vocabulary()](
                   const Tensors& outputs,
                   const Tensors& labels) {
    return mean_loss(
        outputs.at(0),
        filled(head, outputs),
        labels.at(0),
        labels.size() > 1 ? labels[1] : at::Tensor());
  };
  model.logits = [head = builder.vocabulary()](const Tensors& outputs) {
    return nn::logits(outputs.at(0), filled(head, outputs));
  };
  return model;
}

} // namespace cairn::models
