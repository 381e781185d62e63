#include "models/check_input.h"
#include "models/families.h"

#include <cairn/base/error.h>
#include <cairn/model/parameters.h>
#include <cairn/nn/checkpoint.h>
#include <cairn/nn/dropout.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace cairn::models {
namespace {

/// The tensors of a block's input, for block_input_of().
Tensors tensors_of(const nn::BlockInput& input) {
  return {
      input.mask,
      input.positions,
      input.placed.by_distance,
      input.placed.by_key,
      input.memory,
      input.memory_mask,
      input.samples,
      input.first_seen};
}

nn::BlockInput block_input_of(const Tensors& tensors) {
  return {
      .mask = tensors[0],
      .positions = tensors[1],
      .placed = {tensors[2], tensors[3]},
      .memory = tensors[4],
      .memory_mask = tensors[5],
      .samples = tensors[6],
      .first_seen = tensors[7]};
}

/// Fields that blocks read and write, besides the input that a stack shares.
const Fields block_fields{
    &Stream::hidden,
    &Stream::balance_loss,
    &Stream::kept};

/// All layers of a model, on one stage.
class WholeModel : public Transformer {
 public:
  WholeModel(const ModelDescription& d, const ModelOptions& options)
      : Transformer(d),
        recompute_(options.recompute),
        blocks_at_once_(static_cast<std::size_t>(options.recompute_layers)),
        recomputed_blocks_(options.recomputed_blocks),
        sequence_ranks_(options.sequence.group.size()) {
    ModelParts parts = model_parts(d, options, {&Stream::tokens});
    layers_ = std::move(parts.layers);
    output_ = std::move(parts.output);
    build();
  }

  ModelOutput forward(const ModelInput& input) override {
    check_input(input, description());
    if (input.sequence_ranks != sequence_ranks_) {
      throw DataError(
          {.what = "ranks share every sequence, but the batch is whole",
           .remedy = "give the model own_sequence() of the batch"});
    }
    Stream stream{input};
    const ModelDescription& d = description();
    if (is_training() && !input.samples.defined() &&
        (d.dropout > 0 || d.attention_dropout > 0)) {
      stream.samples =
          nn::drawn_samples(input.tokens.size(0), input.tokens.device());
    }
    std::int64_t blocks = 0; // computed again
    for (std::size_t i = 0; i < layers_.size();) {
      const bool again =
          recompute_ && (!recomputed_blocks_ || blocks < *recomputed_blocks_);
      const std::size_t end = again ? end_of_blocks(i) : i;
      if (end > i) {
        blocks += static_cast<std::int64_t>(end - i);
        run_again_in_backward(i, end, stream);
        i = end;
      } else {
        layers_[i].forward(*modules_[i], stream);
        ++i;
      }
    }
    return output_(stream);
  }

 private:
  /// Builds the layers, tied ones once. Parameters are registered in the order
  /// of model::model_parameters(), which optimizers count them in.
  void build() {
    std::map<std::string, std::shared_ptr<torch::nn::Module>> built;
    for (const StreamLayer& layer : layers_) {
      auto& module = built[layer.name];
      module = module ? module : layer.build();
      modules_.push_back(module);
    }
    for (const model::ModelParameter& parameter :
         model::model_parameters(description())) {
      const auto found = built.extract(parameter.layer);
      if (!found.empty()) {
        place(found.key(), found.mapped());
      }
    }
    for (const auto& [name, module] : built) { // those without parameters
      place(name, module);
    }
  }

  void place(
      const std::string& name,
      const std::shared_ptr<torch::nn::Module>& module) {
    torch::nn::Module* parent = this;
    std::size_t begin = 0;
    for (std::size_t dot = name.find('.'); dot != std::string::npos;
         dot = name.find('.', begin)) {
      const std::string folder = name.substr(begin, dot - begin);
      const auto children = parent->named_children();
      const auto* found = children.find(folder);
      parent = found
          ? found->get()
          : parent
                ->register_module(folder, std::make_shared<torch::nn::Module>())
                .get();
      begin = dot + 1;
    }
    const std::string last = name.substr(begin);
    const auto children = parent->named_children();
    if (const auto* folder = children.find(last)) {
      // Puts "embedding" behind "embedding.word", which stays its first child.
      const auto own = module->named_children();
      for (const auto& child : own) {
        module->unregister_module(child.key());
      }
      for (const auto& child : (*folder)->named_children()) {
        module->register_module(child.key(), child.value());
      }
      for (const auto& child : own) {
        module->register_module(child.key(), child.value());
      }
      parent->replace_module(last, module);
    } else {
      parent->register_module(last, module);
    }
  }

  /// The end of the blocks that are computed again together with block `first`.
  std::size_t end_of_blocks(std::size_t first) const {
    std::size_t end = first;
    while (end < layers_.size() && end - first < blocks_at_once_ &&
           layers_[end].prepare) {
      ++end;
    }
    return end;
  }

  void run_again_in_backward(std::size_t begin, std::size_t end, Stream& stream)
      const {
    if (!stream.block_input) {
      layers_[begin].prepare(stream);
    }
    const Tensors outputs = nn::checkpoint(
        *recompute_,
        [this, begin, end](const Tensors& fields, const Tensors& seen) {
          Stream again;
          read(again, block_fields, fields);
          again.block_input = block_input_of(seen);
          for (std::size_t i = begin; i < end; ++i) {
            layers_[i].forward(*modules_[i], again);
          }
          Tensors result{again.hidden};
          if (again.balance_loss.defined()) {
            result.push_back(again.balance_loss);
          }
          return result;
        },
        written(stream, block_fields),
        tensors_of(*stream.block_input));
    stream.hidden = outputs[0];
    if (outputs.size() > 1) {
      stream.balance_loss = outputs[1];
    }
    if (end == layers_.size() || !layers_[end].prepare) {
      stream.block_input.reset(); // was the last of its stack
    }
  }

  std::vector<StreamLayer> layers_;
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  std::function<ModelOutput(const Stream&)> output_;
  std::optional<nn::CheckpointOptions> recompute_;
  std::size_t blocks_at_once_;
  std::optional<std::int64_t> recomputed_blocks_; ///< unset: all
  int sequence_ranks_;
};

} // namespace

std::shared_ptr<Transformer> make_model(
    const ModelDescription& description,
    const ModelOptions& options) {
  if (options.recompute_layers < 1) {
    throw ConfigError(
        {.what = "layers computed again at a time are at least 1",
         .where = "checkpoint-num-layers",
         .values = fmt::format("{}", options.recompute_layers)});
  }
  return std::make_shared<WholeModel>(description, options);
}

} // namespace cairn::models
