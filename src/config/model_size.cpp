#include <cairn/config/model_size.h>

#include <cairn/base/error.h>
#include <cairn/config/expert_layers.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace cairn::config {
namespace {

using Integer = std::int64_t;

// So that nothing overflows: a layer has at most 2^50 parameters.
constexpr Integer largest_width = Integer{1} << 22;
constexpr Integer largest_table = Integer{1} << 30;
constexpr Integer most_layers = 3'000;
constexpr Integer most_in_experts = Integer{1} << 52; // of a layer

Integer said(
    const std::optional<Integer>& value,
    const char* flag,
    Integer most = largest_width) {
  if (!value) {
    throw ConfigError(
        {.what = "the size of the model is not said",
         .where = flag,
         .remedy = "give it, such as --num-layers 12 --hidden-size 768 "
                   "--num-attention-heads 12 --seq-length 1024"});
  }
  if (*value < 1 || *value > most) {
    throw ConfigError(
        {.what = fmt::format("{} is no size of a model", *value),
         .where = flag,
         .remedy = fmt::format("use 1 to {}", most)});
  }
  return *value;
}

/// Ids of the files that the peers' documents name.
struct PublishedVocabulary {
  std::string_view tokenizer;
  Integer ids = 0;
  Integer extra = 0; ///< added where --vocab-extra-ids does not say
};
constexpr std::array published{
    PublishedVocabulary{"GPT2BPETokenizer", 50257},
    PublishedVocabulary{"RobertaTokenizer", 50265},
    PublishedVocabulary{"BertWordPieceLowerCase", 30522},
    PublishedVocabulary{"BertWordPieceCase", 28996, 100}};

Integer vocabulary_of(ModelKind kind, const TokenizerFlags& flags) {
  if (flags.vocab_size) {
    return said(flags.vocab_size, "--vocab-size", largest_table);
  }
  const std::string type = flags.type.value_or(
      flags.merge_file && !flags.model ? "GPT2BPETokenizer" : "");
  for (const PublishedVocabulary& each : published) {
    if (each.tokenizer == type) {
      const Integer extra = flags.vocab_extra_ids > 0 ? flags.vocab_extra_ids
          : kind == ModelKind::t5                     ? 100
                                                      : each.extra;
      return each.ids + std::min(extra, largest_table);
    }
  }
  throw ConfigError(
      {.what = "the size of the vocabulary is not said",
       .where = "--vocab-size",
       .remedy = "give it; the tokenizer's files are not read here"});
}

Integer divided(
    Integer whole,
    Integer ranks,
    const char* flag,
    const char* what) {
  if (whole % ranks != 0) {
    throw ConfigError(
        {.what = fmt::format(
             "{} {} do not divide over {} tensor parallel ranks",
             what,
             whole,
             ranks),
         .where = flag});
  }
  return whole / ranks;
}

/// Counts what the first of so many tensor parallel ranks has.
class Counter {
 public:
  Counter(
      ModelKind kind,
      const Flags& flags,
      Integer ranks,
      std::optional<Integer> vocabulary)
      : kind_(kind), flags_(flags.model), moe_(flags.moe), ranks_(ranks) {
    const ModelFlags& model = flags.model;
    size_.layers = said(
        model.num_layers ? model.num_layers : model.encoder_num_layers,
        "--num-layers",
        most_layers);
    if (kind == ModelKind::t5) {
      size_.decoder_layers = said(
          model.decoder_num_layers.value_or(size_.layers),
          "--decoder-num-layers",
          most_layers);
    }
    size_.hidden = said(model.hidden_size, "--hidden-size");
    size_.heads = said(model.num_attention_heads, "--num-attention-heads");
    const Integer head_size = said(
        model.kv_channels.value_or(size_.hidden / size_.heads),
        model.kv_channels ? "--kv-channels" : "--num-attention-heads");
    const Integer heads =
        divided(size_.heads, ranks, "--num-attention-heads", "heads");
    const Integer key_value_heads = divided(
        said(
            model.num_key_value_heads.value_or(size_.heads),
            "--num-key-value-heads"),
        ranks,
        "--num-key-value-heads",
        "heads of keys and values");
    heads_ = heads;
    query_ = within(heads * head_size, "--kv-channels");
    key_value_ = within(key_value_heads * head_size, "--kv-channels");
    const Integer gated = size_.hidden * 4 * 2 / 3 / 64 * 64; // Megatron's
    ffn_ = divided(
        said(
            model.ffn_hidden_size.value_or(
                model.swiglu ? gated : 4 * size_.hidden),
            "--ffn-hidden-size",
            4 * largest_width),
        ranks,
        "--ffn-hidden-size",
        "columns of the feed-forward part");
    if (has_experts(moe_) && kind != ModelKind::gpt) {
      throw ConfigError(
          {.what = "only GPT has layers with experts",
           .where = "--num-experts"});
    }
    experts_ = experts_of_layers(moe_, size_.layers);
    count_tables(flags, vocabulary);
  }

  ModelSize size() && {
    add("embedding", words(), "words");
    add("embedding",
        positions_ + token_types_,
        kind_ == ModelKind::t5 ? "positions" : "");
    add_stack(size_.layers, false);
    if (kind_ == ModelKind::t5) {
      add("embedding", words(), "words");
      add("embedding", positions_ + token_types_, "positions");
      add_stack(size_.decoder_layers, true);
    }
    add_heads();
    return std::move(size_);
  }

 private:
  static Integer within(Integer value, const char* flag) {
    return said(value, flag, largest_width);
  }

  void count_tables(const Flags& flags, std::optional<Integer> vocabulary) {
    const Integer step = said(
        flags_.make_vocab_size_divisible_by,
        "--make-vocab-size-divisible-by",
        largest_width);
    const Integer rows = step * flags.distributed.tensor_parallel;
    size_.vocabulary = vocabulary
        ? said(vocabulary, "--vocab-size", largest_table)
        : vocabulary_of(kind_, flags.tokenizer);
    size_.padded_vocabulary = said(
        (size_.vocabulary + rows - 1) / rows * rows,
        "--make-vocab-size-divisible-by",
        2 * largest_table);
    vocabulary_ = size_.padded_vocabulary / ranks_;
    size_.sequence = said(
        flags.data.seq_length ? flags.data.seq_length
                              : flags.data.encoder_seq_length,
        "--seq-length",
        largest_table);
    Integer longest = size_.sequence;
    if (kind_ == ModelKind::t5) {
      longest = std::max(longest, flags.data.decoder_seq_length.value_or(0));
    }
    const bool rotary = flags_.use_rotary_position_embeddings ||
        flags_.position_embedding == PositionEmbedding::rope;
    relative_ =
        !rotary && flags_.position_embedding == PositionEmbedding::relative;
    if (!rotary &&
        flags_.position_embedding == PositionEmbedding::learned_absolute) {
      positions_ = size_.hidden *
          said(flags_.max_position_embeddings.value_or(longest),
               "--max-position-embeddings",
               largest_table);
    }
    if (has_binary_head()) {
      token_types_ = 2 * size_.hidden;
    }
  }

  bool has_binary_head() const {
    return kind_ == ModelKind::bert && flags_.bert_binary_head;
  }
  Integer words() const { return vocabulary_ * size_.hidden; }
  Integer norm() const {
    const bool bias = flags_.normalization == Normalization::layer_norm;
    return size_.hidden * (bias ? 2 : 1);
  }
  /// Cut by rows: the bias too.
  Integer rows(Integer out, bool bias) const {
    return out * size_.hidden + (bias ? out : 0);
  }
  /// Cut by columns: the bias is whole.
  Integer columns(Integer in, bool bias) const {
    return in * size_.hidden + (bias ? size_.hidden : 0);
  }

  Integer mlp() const {
    const bool bias = !flags_.disable_bias_linear;
    const Integer ups = flags_.swiglu ? 2 : 1;
    return ups * rows(ffn_, bias) + columns(ffn_, bias);
  }

  /// A block but for its MLP.
  Integer attention(bool crosses) const {
    const bool bias = !flags_.disable_bias_linear || flags_.add_qkv_bias;
    Integer count = 2 * norm();
    count += rows(query_ + 2 * key_value_, bias) + columns(query_, bias);
    if (crosses) {
      count += norm() + rows(query_, bias) + rows(2 * key_value_, bias) +
          columns(query_, bias);
    }
    return count;
  }

  LayerSize block(bool crosses, Integer experts) const {
    LayerSize layer{"block", attention(crosses) + mlp()};
    if (experts > 0) {
      said(experts, "--num-experts", most_in_experts / mlp());
      layer.experts = experts * mlp();
      layer.untouched =
          (experts - std::min(experts, std::max<Integer>(0, moe_.topk))) *
          mlp();
      const bool residual = moe_.mlp_type == "residual"; // and how much it is
      layer.parameters = attention(crosses) + layer.experts +
          experts * size_.hidden + // the router
          (residual ? mlp() + 2 * size_.hidden + 2 : 0);
    }
    return layer;
  }

  void add(const char* type, Integer parameters, std::string tie = "") {
    size_.rank_layers.push_back({type, parameters, std::move(tie)});
  }

  void add_stack(Integer layers, bool crosses) {
    if (relative_) {
      add("embedding",
          heads_ *
              within(
                  flags_.relative_attention_num_buckets,
                  "--relative-attention-num-buckets"));
    }
    for (Integer i = 0; i < layers; ++i) {
      const Integer experts =
          crosses ? 0 : experts_[static_cast<std::size_t>(i)];
      size_.rank_layers.push_back(block(crosses, experts));
    }
    add("norm", norm());
  }

  void add_heads() {
    const Integer square = size_.hidden * size_.hidden + size_.hidden;
    if (has_binary_head()) {
      add("head", square);               // pooler
      add("head", 2 * size_.hidden + 2); // are they in order?
    }
    if (kind_ == ModelKind::bert) {
      add("head", square + norm() + vocabulary_);
    }
    const bool own = flags_.untie_embeddings;
    const bool bias = kind_ == ModelKind::t5;
    if (own || bias) {
      add("head", (own ? words() : 0) + (bias ? vocabulary_ : 0));
    }
    if (!own) {
      add("head", words(), "words");
    }
  }

  ModelKind kind_;
  const ModelFlags& flags_;
  const MoeFlags& moe_;
  std::vector<Integer> experts_; ///< of the layers
  Integer ranks_;
  ModelSize size_;
  // What a rank has:
  Integer heads_ = 0;
  Integer query_ = 0;
  Integer key_value_ = 0;
  Integer ffn_ = 0;
  Integer vocabulary_ = 0;
  Integer positions_ = 0;
  Integer token_types_ = 0;
  bool relative_ = false;
};

} // namespace

ModelSize model_size(
    ModelKind kind,
    const Flags& flags,
    std::optional<std::int64_t> vocabulary) {
  const auto counted = [&](Integer ranks) {
    return Counter(kind, flags, ranks, vocabulary).size();
  };
  ModelSize size = counted(flags.distributed.tensor_parallel);
  std::vector<std::string> seen;
  for (const LayerSize& layer : counted(1).rank_layers) {
    const bool again =
        !layer.tie.empty() && std::ranges::find(seen, layer.tie) != seen.end();
    seen.push_back(layer.tie);
    size.parameters += again ? 0 : layer.parameters;
    size.active_parameters += again ? 0 : layer.parameters - layer.untouched;
  }
  return size;
}

} // namespace cairn::config
