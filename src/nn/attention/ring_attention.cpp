#include "nn/attention/ring_attention.h"

#include "nn/attention/partial_attention.h"
#include "nn/attention/partial_dropping.h"
#include "nn/attention/ring_pass.h"
#include "nn/attention/sequence_halves.h"
#include "nn/parallel/group_capsule.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <cairn/nn/dropout.h>

#include <optional>
#include <span>
#include <vector>

namespace cairn::nn {
namespace {

using distributed::ProcessGroup;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Some tokens of some samples of [batch, tokens, …].
at::Tensor part_of(
    const at::Tensor& x,
    const TokenRange& samples,
    const TokenRange& range) {
  return x.narrow(0, samples.begin, samples.size)
      .narrow(1, range.begin, range.size);
}

PartialAttention part_of(
    const PartialAttention& x,
    const TokenRange& samples,
    const TokenRange& range) {
  return {
      part_of(x.output, samples, range),
      x.log_sum.narrow(0, samples.begin, samples.size)
          .narrow(2, range.begin, range.size)};
}

/// The keys and values that have come to a rank, or their gradients, [2, batch,
/// tokens, …].
struct Keys {
  at::Tensor both;
  at::Tensor key(const RingPart& part) const {
    return part_of(both.select(0, 0), part.samples, part.keys);
  }
  at::Tensor value(const RingPart& part) const {
    return part_of(both.select(0, 1), part.samples, part.keys);
  }
};

/// A part of attention with everything that tells how to compute it.
struct PartOfRing {
  RingPart where;
  Scores scores;
  PartialNoise noise; ///< without samples where nothing is dropped

  AttentionInput input(const at::Tensor& query, const Keys& keys) const {
    return {
        part_of(query, where.samples, where.queries),
        keys.key(where),
        keys.value(where)};
  }

  PartialAttention attend(const at::Tensor& query, const Keys& keys) const {
    return noise.dropout > 0
        ? attend_dropping_partly(input(query, keys), scores, noise)
        : attend_partly(input(query, keys), scores);
  }

  AttentionGradients attend_backward(
      const at::Tensor& outer,
      const at::Tensor& query,
      const Keys& keys,
      const PartialAttention& all) const {
    const at::Tensor gradient = part_of(outer, where.samples, where.queries);
    const PartialAttention whole = part_of(all, where.samples, where.queries);
    return noise.dropout > 0
        ? attend_dropping_partly_backward(
              gradient,
              input(query, keys),
              whole,
              scores,
              noise)
        : attend_partly_backward(gradient, input(query, keys), whole, scores);
  }
};

/// What this rank computes when the keys of `owner` are here.
std::vector<PartOfRing> parts_of_ring(
    const at::Tensor& query,
    const RingOptions& options,
    const ProcessGroup& group,
    int owner) {
  const RingPlace queries{group.rank(), group.size(), query.size(1)};
  const RingPlace keys{owner, group.size(), query.size(1)};
  const RingStep step = ring_step(query.size(1), group.rank(), owner);
  std::vector<RingPart> places;
  if (options.first_seen.defined()) {
    const at::Tensor first_seen = options.first_seen.contiguous();
    places = document_parts(
        step,
        queries,
        keys,
        std::span(
            first_seen.const_data_ptr<std::int64_t>(),
            static_cast<std::size_t>(first_seen.numel())));
  } else {
    places = {{{0, query.size(0)}, step.queries, step.keys, step.causal}};
  }
  std::vector<PartOfRing> parts;
  for (const RingPart& where : places) {
    PartOfRing& part = parts.emplace_back();
    part.where = where;
    part.scores = {.causal = where.causal, .scale = options.scale};
    if (options.dropout > 0) {
      part.noise = {
          .dropout = options.dropout,
          .noise = options.noise,
          .queries = queries.positions(where.queries),
          .keys = keys.positions(where.keys)};
      part.noise.noise.samples = options.noise.samples.narrow(
          0,
          where.samples.begin,
          where.samples.size);
    }
  }
  return parts;
}

/// Calls `work(parts, keys)` with the keys of every rank in turn. The next keys
/// are on their way meanwhile.
template <typename Work>
void go_round(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const RingOptions& options,
    const ProcessGroup& group,
    const Work& work) {
  Keys keys{at::stack({key, value})};
  for (int i = 0; i < group.size(); ++i) {
    std::optional<RingPass> pass;
    if (i + 1 < group.size()) {
      pass.emplace(keys.both, group);
    }
    const int owner = ring_owner(i, group.rank(), group.size());
    work(parts_of_ring(query, options, group, owner), keys);
    if (pass) {
      keys.both = pass->wait();
    }
  }
}

/// The options as autograd keeps them, besides their tensors.
struct RingOptionsCapsule : torch::CustomClassHolder {
  explicit RingOptionsCapsule(const RingOptions& given) : options(given) {
    options.noise.samples.reset();
    options.first_seen.reset();
  }
  RingOptions options;
};

struct RingAttention : torch::autograd::Function<RingAttention> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& query,
      const at::Tensor& key,
      const at::Tensor& value,
      const RingOptions& options,
      const ProcessGroup& group) {
    const auto floats = query.options().dtype(at::kFloat);
    PartialAttention sum;
    go_round(
        query,
        key,
        value,
        options,
        group,
        [&](const std::vector<PartOfRing>& parts, const Keys& keys) {
          // The first parts are of the rank's own keys. They have every token
          // of it once, since it sees itself.
          const bool first = !sum.output.defined();
          if (first) {
            sum = {
                at::empty(query.sizes(), floats),
                at::empty(
                    {query.size(0), query.size(2), query.size(1)},
                    floats)};
          }
          for (const PartOfRing& part : parts) {
            const PartialAttention found = part.attend(query, keys);
            const PartialAttention there =
                part_of(sum, part.where.samples, part.where.queries);
            if (first) {
              there.output.copy_(found.output);
              there.log_sum.copy_(found.log_sum);
            } else {
              join(there, found);
            }
          }
        });
    const at::Tensor output = sum.output.to(query.scalar_type());
    context->save_for_backward(
        {query,
         key,
         value,
         output,
         sum.log_sum,
         options.noise.samples,
         options.first_seen});
    context->saved_data["options"] = c10::IValue::make_capsule(
        c10::make_intrusive<RingOptionsCapsule>(options));
    keep_group(*context, group);
    return output;
  }

  /// The gradients of keys and values follow the keys and values, one step
  /// behind, and are home after a whole round.
  static variable_list backward(AutogradContext* context, variable_list outer) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& query = saved[0];
    const at::Tensor& key = saved[1];
    const PartialAttention whole{saved[3], saved[4]};
    const auto capsule = context->saved_data["options"].toCapsule();
    RingOptions options = static_cast<RingOptionsCapsule&>(*capsule).options;
    options.noise.samples = saved[5];
    options.first_seen = saved[6];
    const ProcessGroup& group = kept_group(*context);
    const auto floats = query.options().dtype(at::kFloat);
    const at::Tensor of_query = at::zeros(query.sizes(), floats);
    std::vector<std::int64_t> shape = key.sizes().vec();
    shape.insert(shape.begin(), 2);
    std::optional<RingPass> gradients;
    go_round(
        query,
        key,
        saved[2],
        options,
        group,
        [&](const std::vector<PartOfRing>& parts, const Keys& keys) {
          std::vector<AttentionGradients> found;
          for (const PartOfRing& part : parts) {
            found.push_back(part.attend_backward(outer[0], query, keys, whole));
            part_of(of_query, part.where.samples, part.where.queries)
                .add_(found.back().query);
            found.back().query.reset();
          }
          const Keys of_keys{
              gradients ? gradients->wait() : at::zeros(shape, floats)};
          for (std::size_t i = 0; i < parts.size(); ++i) {
            of_keys.key(parts[i].where).add_(found[i].key);
            of_keys.value(parts[i].where).add_(found[i].value);
          }
          gradients.emplace(of_keys.both, group);
        });
    const at::Tensor home = gradients->wait().to(key.scalar_type());
    return {
        of_query.to(query.scalar_type()),
        home.select(0, 0),
        home.select(0, 1),
        {},
        {}};
  }
};

} // namespace

at::Tensor ring_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const RingOptions& given,
    const ProcessGroup& group) {
  RingOptions options = given;
  if (options.dropout > 0 && !options.noise.samples.defined()) {
    options.noise.samples = drawn_samples(query.size(0), query.device());
  }
  return RingAttention::apply(query, key, value, options, group);
}

} // namespace cairn::nn
