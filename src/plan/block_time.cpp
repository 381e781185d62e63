#include "plan/block_time.h"

#include "plan/stage_shares.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace cairn::plan {
namespace {

using model::ModelDescription;

/// Passes over memory of what is not a product.
double passes_of(
    const Program& program,
    const Gpu& gpu,
    const Constants& constants) {
  if (program.is_cairn && gpu.measured.passes > 0) {
    return gpu.measured.passes;
  }
  switch (program.elementwise) {
    case Program::Elementwise::pieces:
      return constants.pieces;
    case Program::Elementwise::eager:
      return constants.eager;
    case Program::Elementwise::fused:
      return constants.fused;
    case Program::Elementwise::compiled:
      break;
  }
  return program.is_cairn ? constants.cairn : constants.compiled;
}

/// Kernels in the forward pass of a block.
double kernels_of(Program::Elementwise kind) {
  switch (kind) {
    case Program::Elementwise::pieces:
      return 70;
    case Program::Elementwise::eager:
      return 45;
    case Program::Elementwise::fused:
      return 25;
    case Program::Elementwise::compiled:
      break;
  }
  return 14;
}

/// Seconds of attention at the speeds of its passes.
PieceTime attention_time(double operations, double forward, double backward) {
  constexpr double again = 2.5; // backward computes the scores again
  PieceTime time;
  time.forward.attention = operations / forward;
  time.backward.attention = again * operations / backward;
  return time;
}

} // namespace

double peak_flops(const Training& training, const Gpu& gpu) {
  return training.value_bytes > 2 ? gpu.flops_32bit : gpu.flops;
}

ComputeTime& ComputeTime::operator+=(const ComputeTime& other) {
  products += other.products;
  attention += other.attention;
  elementwise += other.elementwise;
  host += other.host;
  return *this;
}

ComputeTime ComputeTime::times(double factor) const {
  return {
      .products = products * factor,
      .attention = attention * factor,
      .elementwise = elementwise * factor,
      .host = host * factor};
}

ProductTime& ProductTime::operator+=(const ProductTime& other) {
  forward += other.forward;
  backward += other.backward;
  return *this;
}

ProductTime ProductTime::times(double factor) const {
  return {.forward = forward * factor, .backward = backward * factor};
}

BlockTime::BlockTime(
    const Constants& constants,
    const Training& training,
    const RunLayout& layout,
    const Gpu& gpu)
    : constants_(constants),
      training_(training),
      layout_(layout),
      gpu_(gpu),
      value_bytes_(training.value_bytes),
      flops_(peak_flops(training, gpu) * gpu.matmul_share),
      tokens_(
          static_cast<double>(layout.micro_batch * training.sequence) /
          static_cast<double>(layout.context)),
      decoder_tokens_(
          static_cast<double>(layout.micro_batch * training.decoder_sequence)),
      ranks_(static_cast<double>(layout.tensor)),
      passes_(passes_of(training.program, gpu, constants)),
      kernels_(kernels_of(training.program.elementwise)) {}

double BlockTime::traffic(double bytes, double tensor) const {
  const std::vector<SpeedAt>& curve = gpu_.measured.traffic;
  return bytes /
      (curve.empty() ? gpu_.bandwidth * constants_.memory_share
                     : speed_at(curve, tensor > 0 ? tensor : bytes));
}

double BlockTime::share_of(AttentionKind kind) const {
  return kind.placed ? constants_.placed_share : 1;
}

PieceTime BlockTime::fused_attention(
    double operations,
    double keys,
    AttentionKind kind) const {
  if (const auto measured = measured_attention(operations, keys, kind)) {
    return *measured;
  }
  if (training_.program.attention != Program::Attention::fast) {
    const double speed = flops_ * constants_.flash_share;
    return attention_time(operations, speed, speed);
  }
  // Each score has an exponential, however few products it comes from: small
  // heads wait for them.
  constexpr double enough = 128;
  const auto head = static_cast<double>(training_.model.head_size);
  const double speed = flops_ * constants_.fast_share * share_of(kind) *
      std::min(1.0, head / enough);
  return attention_time(operations, speed, speed);
}

std::optional<PieceTime> BlockTime::measured_attention(
    double operations,
    double keys,
    AttentionKind kind) const {
  if (value_bytes_ > 2) {
    const std::vector<SpeedAt>& curve = gpu_.measured.attention;
    if (curve.empty()) {
      return std::nullopt;
    }
    const double speed = speed_at(curve, operations);
    return attention_time(operations, speed, speed);
  }
  const auto& curves = gpu_.measured.attention_16bit;
  if (!curves || training_.program.attention != Program::Attention::fast) {
    return std::nullopt;
  }
  const std::array<double, 2> sizes{
      keys,
      static_cast<double>(training_.model.head_size)};
  const SpeedGrid& forward =
      kind.causal ? curves->causal_forward : curves->forward;
  const SpeedGrid& backward =
      kind.causal ? curves->causal_backward : curves->backward;
  const double share = gpu_.measured.sustained * share_of(kind);
  return attention_time(
      operations,
      share * speed_at(forward, sizes),
      share * speed_at(backward, sizes));
}

double BlockTime::alignment(double m, double n, double k) const {
  constexpr double multiple = 8; // of 16-bit numbers
  const auto fits = [](double side) { return std::fmod(side, multiple) == 0; };
  return fits(m) && fits(n) && fits(k) ? 1 : gpu_.unaligned_share;
}

std::optional<ProductTime> BlockTime::measured_product(
    double m,
    double n,
    double k,
    bool eight_bit) const {
  const double operations = 2 * m * n * k;
  if (value_bytes_ > 2) {
    const std::vector<SpeedAt>& curve = gpu_.measured.products;
    if (curve.empty()) {
      return std::nullopt;
    }
    const double seconds = operations / speed_at(curve, operations);
    return ProductTime{.forward = seconds, .backward = 2 * seconds};
  }
  const auto& curves =
      eight_bit ? gpu_.measured.products_8bit : gpu_.measured.products_16bit;
  if (!curves) {
    return std::nullopt;
  }
  // Products that are smaller than those that were measured still read and
  // write their matrices.
  const double operand = eight_bit ? 1 : value_bytes_;
  const double least =
      traffic(operand * (m * k + n * k) + value_bytes_ * m * n);
  const std::array<double, 3> sizes{m, n, k};
  const double share =
      gpu_.measured.sustained * (eight_bit ? 1 : alignment(m, n, k));
  const auto seconds = [&](const SpeedGrid& grid) {
    return std::max(least, operations / (share * speed_at(grid, sizes)));
  };
  return ProductTime{
      .forward = seconds(curves->forward),
      .backward =
          seconds(curves->input_gradient) + seconds(curves->weight_gradient)};
}

ProductTime BlockTime::product(double m, double n, double k, bool eight_bit)
    const {
  const bool small = eight_bit && gpu_.flops_8bit > 0;
  if (const auto measured = measured_product(m, n, k, small)) {
    return *measured;
  }
  const double rate = small
      ? gpu_.flops_8bit * constants_.eight_bit_share * gpu_.matmul_share
      : flops_ * alignment(m, n, k);
  const double operand = small ? 1 : value_bytes_;
  const double seconds = 2 * m * n * k / rate +
      traffic(operand * (m * k + n * k) + value_bytes_ * m * n);
  return {.forward = seconds, .backward = 2 * seconds};
}

bool BlockTime::in_decoder(std::int64_t layer) const {
  return layer >= training_.model.layers;
}

ProductTime BlockTime::mlp_products(std::int64_t layer, double tokens) const {
  const ModelDescription& d = training_.model;
  const auto hidden = static_cast<double>(d.hidden);
  const double width = static_cast<double>(d.ffn) / ranks_;
  const double up = d.gated ? 2 * width : width;
  const bool small = training_.eight_bit;
  const auto mlp = [&](double rows) {
    ProductTime time = product(rows, up, hidden, small);
    time += product(rows, hidden, width, small);
    return time;
  };
  const std::int64_t experts = model::experts_in_layer(d, layer);
  if (experts == 0) {
    return mlp(tokens);
  }
  const double here = std::max(
      1.0,
      static_cast<double>(experts) / static_cast<double>(layout_.expert));
  const double rows = tokens * static_cast<double>(d.experts->top_k) *
      std::max(1.0, d.experts->train_capacity_factor);
  ProductTime time = mlp(std::max(1.0, rows / here)).times(here);
  if (d.experts->residual) {
    time += mlp(tokens);
  }
  return time;
}

void BlockTime::add_attention(
    double tokens,
    double keys,
    AttentionKind kind,
    PieceTime& time) const {
  const ModelDescription& d = training_.model;
  const double width = static_cast<double>(d.heads * d.head_size) / ranks_;
  const double operations = 4 * tokens * keys * width;
  if (training_.program.flash()) {
    const PieceTime fused =
        fused_attention(operations * (kind.causal ? 0.5 : 1), keys, kind);
    time.forward += fused.forward;
    time.backward += fused.backward;
    return;
  }
  // Two products with the scores between them: written, masked, normalised,
  // dropped and read again.
  const double heads = static_cast<double>(d.heads) / ranks_;
  constexpr double least_passes = 4;
  const double aligned = alignment(8, 8, static_cast<double>(d.head_size));
  const double forward = operations / (flops_ * aligned) +
      traffic(passes_ * least_passes * value_bytes_ * tokens * keys * heads);
  time.forward.attention += forward;
  time.backward.attention += 2 * forward;
}

PieceTime BlockTime::block(std::int64_t layer) const {
  const ModelDescription& d = training_.model;
  const auto hidden = static_cast<double>(d.hidden);
  const double query = static_cast<double>(d.heads * d.head_size) / ranks_;
  const double key_value =
      2 * static_cast<double>(d.key_value_heads * d.head_size) / ranks_;
  const bool small = training_.eight_bit;
  const bool decodes = in_decoder(layer);
  const double tokens = decodes ? decoder_tokens_ : tokens_;
  PieceTime time;
  ProductTime products = product(tokens, query + key_value, hidden, small);
  products += product(tokens, hidden, query, small);
  products += mlp_products(layer, tokens);
  // Norms read and write, residuals read two and write one: once for each
  // branch. Heads are turned round, activations read and written.
  const double branches = decodes ? 3 : 2;
  const double whole =
      5 * branches * hidden / (layout_.sequence_parallel ? ranks_ : 1);
  const double cut = 2 * (query + key_value) + (decodes ? 4 * query : 0) +
      (d.gated ? 3 : 2) * static_cast<double>(d.ffn) / ranks_;
  // Before a product in 8 bits its input is read for the range and cast.
  const double casts =
      small ? 2 * hidden + query + static_cast<double>(d.ffn) / ranks_ : 0;
  time.forward.elementwise = traffic(
      value_bytes_ * tokens * (passes_ * (whole + cut) + casts),
      value_bytes_ * tokens * hidden);
  const bool causal = model::kind_of(d.family) == model::ModelKind::gpt;
  add_attention(
      tokens,
      static_cast<double>(
          decodes ? training_.decoder_sequence : training_.sequence),
      {.causal = causal || decodes,
       .placed = d.position == model::PositionKind::relative},
      time);
  if (decodes) { // it attends to the encoder's result
    products += product(tokens, query, hidden, small);
    products += product(tokens_, key_value, hidden, small);
    products += product(tokens, hidden, query, small);
    time.forward.elementwise +=
        traffic(value_bytes_ * tokens_ * passes_ * 2 * key_value);
    add_attention(tokens, static_cast<double>(training_.sequence), {}, time);
  }
  time.forward.products = products.forward;
  time.backward.products = products.backward;
  time.backward.elementwise = 2 * time.forward.elementwise;
  const double kernels = kernels_ * (decodes ? 1.5 : 1);
  const double calls = kernels * gpu_.measured.operator_seconds;
  const double launches = kernels * constants_.launch_seconds;
  time.forward.host =
      calls > 0 ? calls : std::max(0.0, launches - time.forward.total());
  time.backward.host = calls > 0
      ? 2 * calls
      : std::max(0.0, 2 * launches - time.backward.total());
  return time;
}

ComputeTime BlockTime::parts_again(std::int64_t layer) const {
  const ModelDescription& d = training_.model;
  const double tokens = in_decoder(layer) ? decoder_tokens_ : tokens_;
  const double tensor = value_bytes_ * tokens * static_cast<double>(d.hidden);
  const double inner = static_cast<double>(d.ffn) / ranks_;
  const bool mixture = model::experts_in_layer(d, layer) > 0;
  ComputeTime again;
  if (mixture ? layout_.recompute_mixtures : layout_.recompute_mlps) {
    again.products += mlp_products(layer, tokens).forward;
    again.elementwise += traffic(
        value_bytes_ * tokens * passes_ * (d.gated ? 3 : 2) * inner,
        tensor);
  } else if (mixture && layout_.recompute_expert_activations) {
    again.elementwise += traffic(
        value_bytes_ * tokens * static_cast<double>(d.experts->top_k) *
            passes_ * (d.gated ? 3 : 2) * inner,
        tensor);
  }
  if (layout_.recompute_norms && !training_.eight_bit) {
    const double norms = in_decoder(layer) ? 3 : 2; // each reads and writes
    again.elementwise += traffic(
        passes_ * 2 * norms * tensor / (layout_.sequence_parallel ? ranks_ : 1),
        tensor);
  }
  return again;
}

PieceTime BlockTime::embedding() const {
  const double rows = traffic(
      value_bytes_ * (tokens_ + decoder_tokens_) * 4 *
          static_cast<double>(training_.model.hidden),
      value_bytes_ * tokens_ * static_cast<double>(training_.model.hidden));
  PieceTime time;
  time.forward.elementwise = rows;
  time.backward.elementwise = 2 * rows;
  return time;
}

PieceTime BlockTime::head() const {
  const ModelDescription& d = training_.model;
  const double words = static_cast<double>(d.padded_vocabulary) / ranks_;
  const double tokens = (decoder_tokens_ > 0 ? decoder_tokens_ : tokens_) *
      training_.program.scored_share;
  PieceTime time;
  const ProductTime products =
      product(tokens, words, static_cast<double>(d.hidden), false);
  time.forward.products = products.forward;
  time.backward.products = products.backward;
  // The loss reads the logits, and backward writes their gradients.
  constexpr double least_passes = 2;
  time.forward.elementwise = traffic(
      value_bytes_ * tokens * words * least_passes * passes_,
      value_bytes_ * tokens * words);
  time.backward.elementwise = time.forward.elementwise;
  return time;
}

} // namespace cairn::plan
