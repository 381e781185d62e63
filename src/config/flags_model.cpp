#include "config/flag.h"

namespace cairn::config {

void add_model_flags(std::vector<Flag>& table) {
  using F = Flags;
  using M = ModelFlags;
  FlagGroup model(table, "model");
  model.flag<&F::model, &M::num_layers>("--num-layers", "Transformer layers.")
      .at_least(1);
  model
      .flag<&F::model, &M::encoder_num_layers>(
          "--encoder-num-layers",
          "Layers of the encoder (T5).")
      .at_least(1)
      .by_default("--num-layers");
  model
      .flag<&F::model, &M::decoder_num_layers>(
          "--decoder-num-layers",
          "Layers of the decoder (T5).")
      .at_least(1)
      .by_default("--num-layers");
  model
      .flag<&F::model, &M::hidden_size>(
          "--hidden-size",
          "Width of the hidden state.")
      .at_least(1)
      .also("--h_dim");
  model
      .flag<&F::model, &M::ffn_hidden_size>(
          "--ffn-hidden-size",
          "Width inside the feed-forward part.")
      .at_least(1)
      .also("--ff_dim")
      .by_default("4 x hidden size; with --swiglu 2/3 of that");
  model
      .flag<&F::model, &M::num_attention_heads>(
          "--num-attention-heads",
          "Attention heads.")
      .at_least(1)
      .also("--num_heads");
  model
      .flag<&F::model, &M::num_key_value_heads>(
          "--num-key-value-heads",
          "Heads of keys and values, shared by groups of query heads.")
      .at_least(1)
      .also("--num-query-groups")
      .by_default("--num-attention-heads");
  model.flag<&F::model, &M::group_query_attention>(
      "--group-query-attention",
      "Share keys and values; needs --num-key-value-heads.");
  model.flag<&F::model, &M::kv_channels>("--kv-channels", "Width of one head.")
      .at_least(1)
      .by_default("hidden size / heads");
  model
      .flag<&F::model, &M::max_position_embeddings>(
          "--max-position-embeddings",
          "Positions the model knows; at least the sequence length.")
      .at_least(1);
  model.flag<&F::model, &M::position_embedding>(
      "--position-embedding-type",
      "How the model knows positions.");
  model.flag<&F::model, &M::use_rotary_position_embeddings>(
      "--use-rotary-position-embeddings",
      "The same as --position-embedding-type rope.");
  model
      .flag<&F::model, &M::rotary_base>(
          "--rotary-base",
          "Base of the rotary frequencies.")
      .above(0)
      .also("--rope-theta");
  model
      .flag<&F::model, &M::rotary_percent>(
          "--rotary-percent",
          "Part of a head that is rotated.")
      .at_least(0)
      .at_most(1);
  model
      .flag<&F::model, &M::relative_attention_num_buckets>(
          "--relative-attention-num-buckets",
          "Buckets of the relative position bias (T5).")
      .at_least(1);
  model
      .flag<&F::model, &M::relative_attention_max_distance>(
          "--relative-attention-max-distance",
          "Farthest distance it tells apart (T5).")
      .at_least(1);
  model.flag<&F::model, &M::normalization>(
      "--normalization",
      "Kind of normalisation.");
  model
      .flag<&F::model, &M::norm_epsilon>(
          "--norm-epsilon",
          "Added to the variance when normalising.")
      .above(0)
      .also("--layernorm-epsilon");
  model.flag<&F::model, &M::post_layer_norm>(
      "--apply-residual-connection-post-layernorm",
      "Add the residual after the normalisation, as the first BERT.");
  model.flag<&F::model, &M::swiglu>(
      "--swiglu",
      "Gated SiLU in the feed-forward part instead of GELU.");
  model.flag<&F::model, &M::squared_relu>(
      "--squared-relu",
      "Squared ReLU instead of GELU.");
  model.flag<&F::model, &M::openai_gelu>(
      "--openai-gelu",
      "The tanh form of GELU.");
  model.flag<&F::model, &M::disable_bias_linear>(
      "--disable-bias-linear",
      "No biases in linear layers.");
  model.flag<&F::model, &M::add_qkv_bias>(
      "--add-qkv-bias",
      "Biases for query, key and value all the same.");
  model.flag<&F::model, &M::untie_embeddings>(
      "--untie-embeddings-and-output-weights",
      "An output layer of its own instead of the embedding's weights.");
  model
      .flag<&F::model, &M::make_vocab_size_divisible_by>(
          "--make-vocab-size-divisible-by",
          "Pad the vocabulary to a multiple of this x tensor-parallel size.")
      .at_least(1);
  model.off<&F::model, &M::bert_binary_head>(
      "--bert-no-binary-head",
      "BERT without next-sentence prediction.");
  model
      .flag<&F::model, &M::use_flash_attn>(
          "--use-flash-attn",
          "Fused attention.")
      .also("--use-flash-attn-v1")
      .also("--use-flash-attn-v2")
      .without_effect("fused attention is used wherever it can be");
  model
      .flag<&F::model, &M::init_method_std>(
          "--init-method-std",
          "Standard deviation of initial weights.")
      .above(0);
  model.flag<&F::model, &M::init_method_xavier_uniform>(
      "--init-method-xavier-uniform",
      "Xavier's uniform distribution for initial weights.");

  using E = MoeFlags;
  FlagGroup moe(table, "mixture of experts");
  moe.flag<&F::moe, &E::num_experts>(
         "--num-experts",
         "Experts per layer, or one number for all layers.")
      .at_least(1);
  moe.flag<&F::moe, &E::topk>("--topk", "Experts each token goes to.")
      .at_least(1)
      .at_most(2)
      .also("--moe-router-topk");
  moe.flag<&F::moe, &E::mlp_type>(
         "--mlp-type",
         "Experts alone, or beside a layer for every token.")
      .one_of({"standard", "residual"});
  moe.flag<&F::moe, &E::loss_coeff>(
         "--moe-loss-coeff",
         "Weight of the load-balancing loss.")
      .at_least(0)
      .also("--moe-aux-loss-coeff");
  moe.flag<&F::moe, &E::train_capacity_factor>(
         "--moe-train-capacity-factor",
         "Room per expert in training, as a multiple of the even share.")
      .above(0)
      .also("--moe-expert-capacity-factor");
  moe.flag<&F::moe, &E::eval_capacity_factor>(
         "--moe-eval-capacity-factor",
         "The same in evaluation.")
      .above(0);
  moe.flag<&F::moe, &E::min_capacity>(
         "--moe-min-capacity",
         "Tokens every expert has room for.")
      .at_least(1);
  moe.flag<&F::moe, &E::expert_interval>(
         "--expert-interval",
         "Every so many layers have experts.")
      .at_least(1);
  moe.off<&F::moe, &E::token_dropping>(
      "--disable-moe-token-dropping",
      "Make room for every token instead of dropping the overflow.");
  moe.off<&F::moe, &E::random_token_selection>(
      "--disable-moe-random-token-selection",
      "With top 1, drop the last tokens of an expert, not some that are "
      "drawn.");
  moe.off<&F::moe, &E::second_expert_sampling>(
      "--disable-moe-top2-2nd-expert-sampling",
      "With top 2, take the second best expert, not one that is drawn.");
  moe.flag<&F::moe, &E::noise>(
      "--moe-noisy-gate-policy",
      "In training, what the router sees is jittered, or with top 1 the expert "
      "is drawn by its probability (RSample).");
}

} // namespace cairn::config
