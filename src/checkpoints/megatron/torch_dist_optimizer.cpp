#include "checkpoints/dcp/folder.h"
#include "checkpoints/megatron/experts.h"
#include "checkpoints/megatron/names.h"
#include "checkpoints/megatron/optimizer_contents.h"
#include "checkpoints/megatron/torch_dist.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/lazy_operations.h"

#include <c10/util/accumulate.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

namespace cairn::checkpoints::megatron {

namespace {

namespace fs = std::filesystem;
using Kind = PythonValue::Kind;

constexpr std::string_view by_name = "optimizer.state.";
constexpr std::string_view by_buffer = "optimizer.distributed.dp_group_idx_";
// Before the names of two optimizers, where ranks divide the experts, which the
// second one has.
constexpr std::array<std::string_view, 2> chained{"chained_0.", "chained_1."};
constexpr std::int64_t most_buckets = 100'000;
constexpr std::int64_t most_ranks = 100'000;

/// A kind of states, and what the files call it.
constexpr std::array<std::pair<const char*, const char*>, 4> spellings{
    {{"exp_avg", "exp_avg"},
     {"exp_avg_sq", "exp_avg_sq"},
     {master_kind, "fp32_param"},
     {master_kind, "param"}}};

/// The options of the parameter groups, and the number of updates.
void read_groups(const PythonValue& optimizer, OptimizerContents& into) {
  into.loss_scaler = loss_scaler_of(optimizer);
  const auto inside = optimizer.find("optimizer");
  const PythonValue& adam =
      inside && inside->is(Kind::dict) ? *inside : optimizer;
  const auto state = adam.find("state");
  if (state && state->is(Kind::dict)) {
    into.steps = step_in(state->find("common_step"));
  }
  const auto groups = adam.find("param_groups");
  if (groups && groups->is(Kind::list)) {
    into.groups = groups->items();
  }
  for (const PythonValue& group : into.groups) {
    into.steps = std::max(into.steps, step_in(group.find("step")));
  }
}

/// The first of the optimizers, which are numbered where there are two.
PythonValue first_optimizer(const PythonValue& optimizers) {
  for (const auto& [key, value] : optimizers.entries()) {
    if (key.is(Kind::integer) && key.integer() == 0 && value.is(Kind::dict)) {
      return value;
    }
  }
  return optimizers;
}

/// A parameter's part of a state that the distributed optimizer of
/// Megatron-Core up to 0.15 cut: the parts along each dimension, each flat.
LazyTensor put_together(
    const LazyTensor& parts,
    const std::vector<std::int64_t>& shape,
    const std::string& name) {
  const std::size_t dims = shape.size();
  bool fits = parts.shape.size() == dims + 1 && dims >= 1 && dims <= 2;
  std::vector<std::int64_t> part = shape;
  for (std::size_t d = 0; fits && d < dims; ++d) {
    fits = parts.shape[d] > 0 && shape[d] % parts.shape[d] == 0;
    part[d] = fits ? shape[d] / parts.shape[d] : 0;
  }
  const std::int64_t count = c10::multiply_integers(part);
  if (!fits || parts.shape[dims] != count) {
    throw CheckpointError(
        {.what = "a state that does not fit its parameter", .values = name});
  }
  const std::int64_t across = dims == 2 ? parts.shape[1] : 1;
  std::vector<LazyTensor> rows;
  for (std::int64_t row = 0; row < parts.shape[0]; ++row) {
    std::vector<LazyTensor> columns;
    for (std::int64_t column = 0; column < across; ++column) {
      const std::int64_t at = (row * across + column) * count;
      columns.push_back(reshaped(elements(parts, at, at + count), part));
    }
    rows.push_back(
        joined(std::move(columns), static_cast<std::int64_t>(dims) - 1));
  }
  return joined(std::move(rows), 0);
}

/// The first of a parameter's names: the states of a T5 have the second one
/// where there are two.
std::string first_name(const std::string& name, bool t5) {
  return std::string(
      !t5                                 ? name
          : name == second_core_positions ? core_positions
          : name == second_head_bias      ? t5_head_bias
                                          : std::string_view(name));
}

/// Reads states that have their parameters' names.
void read_named(
    const dcp::Folder& saved,
    const Contents& contents,
    OptimizerContents& into) {
  const RankTensors& parameters = contents.ranks.front();
  const bool t5 = parameters.tensors.contains(t5_head_bias);
  for (const auto& [kind, theirs] : spellings) {
    const std::string prefix = fmt::format("{}{}.", by_name, theirs);
    RankTensors found;
    for (const auto& [name, info] : saved.metadata().tensors) {
      if (!name.starts_with(prefix) || is_second_name(saved, prefix, name)) {
        continue;
      }
      const std::string own = name.substr(prefix.size());
      if (const std::string first = first_name(own, t5); first != own) {
        if (!saved.metadata().tensors.contains(prefix + first)) {
          add_tensor(found, first, saved.tensor(name), contents.where);
        }
        continue;
      }
      add_stacked(saved, name, prefix.size(), contents.where, found);
    }
    for (auto& [name, entry] : found.tensors) {
      const auto parameter = parameters.tensors.find(name);
      if (parameter != parameters.tensors.end() &&
          parameter->second.tensor.shape != entry.tensor.shape) {
        entry.tensor =
            put_together(entry.tensor, parameter->second.tensor.shape, name);
        into.cut = true;
      }
    }
    if (!found.tensors.empty()) {
      into.states[kind].push_back(std::move(found));
    }
  }
}

std::int64_t size_in(const PythonValue& args, const char* name) {
  const auto value = args.is(Kind::object) ? args.find(name) : std::nullopt;
  const std::int64_t size =
      value && value->is(Kind::integer) ? value->integer() : 1;
  if (size < 1 || size > most_ranks) {
    throw CheckpointError(
        {.what = "an impossible number of ranks in the args", .values = name});
  }
  return size;
}

bool flag_in(const PythonValue& args, const char* name) {
  const auto value = args.is(Kind::object) ? args.find(name) : std::nullopt;
  return value && value->is(Kind::boolean) && value->boolean();
}

/// How a run divides a model over ranks.
struct Division {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t expert = 1;
};

/// Names of a rank's parameters in the order in which its modules have them.
class LocalOrder {
 public:
  LocalOrder(
      const RankTensors& parameters,
      const PythonValue& args,
      const Division& division)
      : parameters_(parameters), division_(division) {
    const auto impl =
        args.is(Kind::object) ? args.find("transformer_impl") : std::nullopt;
    local_ = impl && impl->is(Kind::text) && impl->text() == "local";
    grouped_ = !local_ && flag_in(args, "moe_grouped_gemm");
    for (const char* name : {"encoder.", "decoder."}) {
      Stack stack{.name = name};
      while (parameters_.tensors.contains(fmt::format(
          "{}layers.{}.self_attention.linear_qkv.weight",
          name,
          stack.layers))) {
        ++stack.layers;
      }
      if (stack.layers > 0) {
        stacks_.push_back(std::move(stack));
      }
    }
  }

  std::vector<OrderedParameter> of_stage(std::int64_t stage) {
    order_.clear();
    if (stage == 0) {
      add("embedding.word_embeddings.weight");
      add("embedding.position_embeddings.weight");
      add("embedding.tokentype_embeddings.weight");
    }
    const bool last = stage + 1 == division_.pipeline;
    for (const Stack& stack : stacks_) {
      const std::int64_t each = stack.layers / division_.pipeline;
      for (std::int64_t layer = stage * each; layer < (stage + 1) * each;
           ++layer) {
        add_layer(fmt::format("{}layers.{}.", stack.name, layer));
      }
      if (last) {
        add_both(stack.name + "final_layernorm.");
      }
    }
    if (last) {
      add_heads();
    }
    return std::move(order_);
  }
  /// True if the stages have equally many layers.
  bool divides() const {
    return std::ranges::all_of(stacks_, [&](const Stack& stack) {
      return stack.layers % division_.pipeline == 0;
    });
  }

 private:
  /// An encoder or a decoder.
  struct Stack {
    std::string name;
    std::int64_t layers = 0;
  };

  void add_heads() {
    add_both("lm_head.dense.");
    add_both("lm_head.layer_norm.");
    add(std::string(t5_head_bias));
    add("output_layer.weight");
    const bool tied = !parameters_.tensors.contains("output_layer.weight");
    if (tied && division_.pipeline > 1) {
      add_as("embedding.word_embeddings.weight", "output_layer.weight");
    }
    add("output_layer.bias");
    add_both("binary_head.");
    add_both("pooler.dense.");
  }
  void add_layer(const std::string& layer) {
    // Norms come before the linear layer that they are a part of, or as layers
    // of their own before attention and MLP.
    if (local_) {
      add_both(layer + "input_layernorm.");
    }
    add_both(layer + "self_attention.linear_proj.");
    if (!local_) {
      add_both(layer + "input_layernorm.");
    }
    add_both(layer + "self_attention.linear_qkv.");
    add_both(layer + "self_attention.q_layernorm.");
    add_both(layer + "self_attention.k_layernorm.");
    add_both(layer + "pre_cross_attn_layernorm.");
    add_both(layer + "cross_attention.linear_proj.");
    add_both(layer + "cross_attention.linear_q.");
    add_both(layer + "cross_attention.linear_kv.");
    add_both(layer + "pre_mlp_layernorm.");
    add(layer + "mlp.router.weight");
    add_experts(layer + "mlp.experts.");
    add_both(layer + "mlp.linear_fc1.");
    add_both(layer + "mlp.linear_fc2.");
  }
  /// Sequential experts follow each other, grouped ones lie together.
  void add_experts(const std::string& path) {
    constexpr std::array<const char*, 2> linears{"linear_fc1.", "linear_fc2."};
    constexpr std::array<const char*, 2> parts{"weight", "bias"};
    const std::string first = path + "experts.linear_fc1.weight";
    const auto found = parameters_.tensors.find(first);
    if (found == parameters_.tensors.end() ||
        found->second.tensor.shape.empty()) {
      return;
    }
    const std::int64_t experts =
        found->second.tensor.shape[0] / division_.expert;
    if (grouped_) {
      for (const char* linear : linears) {
        for (const char* part : parts) {
          for (std::int64_t i = 0; i < experts; ++i) {
            add_as(
                fmt::format("{}experts.{}{}", path, linear, part),
                fmt::format("{}{}{}{}", path, linear, part, i));
          }
        }
      }
      return;
    }
    for (std::int64_t i = 0; i < experts; ++i) {
      for (const char* linear : linears) {
        for (const char* part : parts) {
          add_as(
              fmt::format("{}experts.{}{}", path, linear, part),
              fmt::format("{}local_experts.{}.{}{}", path, i, linear, part));
        }
      }
    }
  }
  void add_both(const std::string& name) {
    add(name + "weight");
    add(name + "bias");
  }
  void add(const std::string& name) { add_as(name, name); }
  void add_as(const std::string& name, const std::string& as) {
    const auto found = parameters_.tensors.find(name);
    if (found == parameters_.tensors.end()) {
      return;
    }
    OrderedParameter parameter{as, found->second.tensor.shape};
    if (is_of_experts(name) && !parameter.shape.empty()) {
      // The name is that of all experts.
      parameter.shape.erase(parameter.shape.begin());
    }
    const std::size_t dims = name.ends_with("weight") ? 2 : 1;
    const bool is_norm = name.find("layernorm.") != name.npos ||
        name.find("layer_norm.") != name.npos;
    if (parameter.shape.size() != (is_norm ? 1 : dims)) {
      return; // then the buffer is not filled
    }
    const auto has = [&](std::string_view part) {
      return name.find(part) != name.npos;
    };
    if (has("linear_qkv.") || has("linear_q.") || has("linear_kv.") ||
        has("linear_fc1.") || has("word_embeddings.") || has("output_layer.")) {
      parameter.shape[0] /= division_.tensor;
    } else if (has("linear_proj.weight") || has("linear_fc2.weight")) {
      parameter.shape[1] /= division_.tensor;
    }
    order_.push_back(std::move(parameter));
  }

  const RankTensors& parameters_;
  Division division_;
  bool local_ = false;
  bool grouped_ = false;
  std::vector<Stack> stacks_;
  std::vector<OrderedParameter> order_;
};

/// Numbers of elements of a group's buckets, without padding.
std::vector<std::int64_t> bucket_sizes(
    const dcp::Folder& saved,
    const std::string& group) {
  const std::string prefix = group + "per_bucket_numel_unpadded/";
  const auto& objects = saved.metadata().objects;
  const auto found = objects.lower_bound(prefix);
  if (found == objects.end() || !found->first.starts_with(prefix)) {
    return {};
  }
  // [[{dtypes: [sizes]}]]: one of a list of objects, its first buffer.
  PythonValue value = saved.object(found->first);
  while (value.is(Kind::list) && value.size() == 1) {
    value = value.items().front();
  }
  std::vector<std::int64_t> sizes;
  if (value.is(Kind::dict) && value.size() == 1) {
    for (const PythonValue& size : value.entries().front().second.items()) {
      sizes.push_back(size.integer());
    }
  }
  return sizes;
}

/// The buckets of a kind of states. Empty if there is not one buffer.
std::vector<LazyTensor> buckets_of(
    const dcp::Folder& saved,
    const std::string& group,
    const char* kind) {
  // gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_0.param
  const std::string prefix = group + "gbuf_idx_0.dtype_(";
  const auto& tensors = saved.metadata().tensors;
  const auto first = tensors.lower_bound(prefix);
  if (first == tensors.end() || !first->first.starts_with(prefix)) {
    return {};
  }
  const auto end = first->first.find(").", prefix.size());
  if (end == std::string::npos) {
    return {};
  }
  const std::string buffer = first->first.substr(0, end + 2);
  std::vector<LazyTensor> buckets;
  for (std::int64_t i = 0; i < most_buckets; ++i) {
    const std::string name = fmt::format("{}bucket_idx_{}.{}", buffer, i, kind);
    if (!tensors.contains(name)) {
      break;
    }
    buckets.push_back(saved.tensor(name));
  }
  return buckets;
}

/// The kinds of states that an expert parallel rank has.
using StatesByKind = std::map<std::string, RankTensors>;

/// Reads the flat buffers of a group of ranks that share them. Returns false if
/// the parameters do not fill the buffers.
bool read_group(
    const dcp::Folder& saved,
    const std::string& group,
    const std::vector<OrderedParameter>& ordered,
    const fs::path& where,
    StatesByKind& into) {
  const auto sizes = bucket_sizes(saved, group);
  for (const auto& [kind, theirs] : spellings) {
    if (std::string_view(theirs) == "fp32_param") {
      continue;
    }
    const auto buckets = buckets_of(saved, group, theirs);
    if (buckets.size() != sizes.size() ||
        !add_flat(ordered, buckets, sizes, where, into[kind])) {
      return false;
    }
  }
  return true;
}

/// The states of an expert parallel rank. Makes a place for them.
StatesByKind& at_place(std::vector<StatesByKind>& all, std::int64_t rank) {
  const auto place = static_cast<std::size_t>(rank);
  all.resize(std::max(all.size(), place + 1));
  return all[place];
}

struct ModelRank {
  std::int64_t stage = 0;
  std::int64_t tensor = 0;
};

/// Reads the flat buffers of a rank that divides the experts with others, which
/// have an optimizer of their own.
bool read_two_optimizers(
    const dcp::Folder& saved,
    const fs::path& where,
    const Division& division,
    const ModelRank& rank,
    const std::vector<OrderedParameter>& ordered,
    std::vector<StatesByKind>& into) {
  const auto read = [&](std::string_view before,
                        std::int64_t number,
                        bool experts,
                        StatesByKind& states) {
    return read_group(
        saved,
        fmt::format("{}{}{}.", before, by_buffer, number),
        only_experts(ordered, experts),
        where,
        states);
  };
  bool fits = read(
      chained[0],
      rank.stage * division.tensor + rank.tensor,
      false,
      at_place(into, 0));
  for (std::int64_t expert = 0; expert < division.expert && fits; ++expert) {
    const std::int64_t block = rank.stage * division.expert + expert;
    fits = read(
        chained[1],
        block * division.tensor + rank.tensor,
        true,
        at_place(into, expert));
  }
  return fits;
}

/// Reads the flat buffers of the distributed optimizer: each model-parallel
/// rank has its own, and each rank that divides the experts one for these.
void read_buffers(
    const dcp::Folder& saved,
    const Contents& contents,
    bool two_optimizers,
    OptimizerContents& into) {
  const PythonValue args = contents.first.find("args").value_or(PythonValue());
  const Division division{
      .tensor = size_in(args, "tensor_model_parallel_size"),
      .pipeline = size_in(args, "pipeline_model_parallel_size"),
      .expert = size_in(args, "expert_model_parallel_size")};
  const auto virtual_stages = args.is(Kind::object)
      ? args.find("virtual_pipeline_model_parallel_size")
      : std::nullopt;
  const RankTensors& parameters = contents.ranks.front();
  LocalOrder order(parameters, args, division);
  if (!order.divides() || (virtual_stages && !virtual_stages->is_none())) {
    into.unread = "stages of different layers, in flat buffers without names";
    return;
  }
  if (two_optimizers &&
      size_in(args, "expert_tensor_parallel_size") != division.tensor) {
    into.unread = "experts on other tensor parallel ranks than the rest, in "
                  "flat buffers without names";
    return;
  }
  // The states by their kind, read[tensor rank][expert parallel rank].
  std::vector<std::vector<StatesByKind>> read(
      static_cast<std::size_t>(division.tensor));
  for (std::int64_t stage = 0; stage < division.pipeline; ++stage) {
    const auto ordered = order.of_stage(stage);
    for (std::int64_t rank = 0; rank < division.tensor; ++rank) {
      auto& of_experts = read[static_cast<std::size_t>(rank)];
      const bool fits = two_optimizers
          ? read_two_optimizers(
                saved,
                contents.where,
                division,
                {stage, rank},
                ordered,
                of_experts)
          : read_group(
                saved,
                fmt::format("{}{}.", by_buffer, stage * division.tensor + rank),
                ordered,
                contents.where,
                at_place(of_experts, 0));
      if (!fits) {
        into.unread = "the parameters do not fill the distributed optimizer's "
                      "flat buffers";
        return;
      }
    }
  }
  for (auto& of_experts : read) {
    for (const char* kind : {"exp_avg", "exp_avg_sq", master_kind}) {
      std::vector<RankTensors> parts;
      for (StatesByKind& states : of_experts) {
        parts.push_back(std::move(states[kind]));
      }
      into.states[kind].push_back(with_stacked_experts(
          std::move(parts),
          experts_in_args(contents.first)));
    }
  }
  // With several tensor ranks the parameters are not there in parts, but the
  // whole ones among them are.
  RankTensors whole;
  for (const auto& [name, entry] : into.states[master_kind].front().tensors) {
    const auto found = parameters.tensors.find(name);
    if (found != parameters.tensors.end() &&
        found->second.tensor.shape == entry.tensor.shape) {
      whole.tensors.emplace(name, entry);
    }
  }
  if (!rounds_to(whole, parameters)) {
    into.unread = "the order of the parameters in flat buffers is not known: "
                  "the fp32 copies are not the parameters, more exact";
  }
}

} // namespace

OptimizerContents read_torch_dist_optimizer(
    const fs::path& folder,
    const Contents& contents) {
  return in_file(folder, [&] {
    const dcp::Folder saved(folder);
    OptimizerContents result;
    const auto optimizer = contents.first.find("optimizer");
    if (optimizer && optimizer->is(Kind::dict)) {
      read_groups(first_optimizer(*optimizer), result);
    }
    const std::string first = fmt::format("{}exp_avg.", by_name);
    const auto named = saved.metadata().tensors.lower_bound(first);
    const bool has_names = named != saved.metadata().tensors.end() &&
        named->first.starts_with(first);
    if (has_names) {
      read_named(saved, contents, result);
      const PythonValue args =
          contents.first.find("args").value_or(PythonValue());
      if (result.cut && flag_in(args, "swiglu")) {
        result.unread = "gated MLPs in the format fully_sharded_model_space";
      }
      return result;
    }
    const std::string one = fmt::format("{}0.optimizer/shard_0_1", by_buffer);
    const bool two_optimizers = !saved.metadata().objects.contains(one);
    const std::string object =
        two_optimizers ? fmt::format("{}{}", chained[0], one) : one;
    if (!saved.metadata().objects.contains(object)) {
      result.unread = "an optimizer of a kind that is not known";
      return result;
    }
    PythonValue groups = saved.object(object);
    if (groups.is(Kind::list) && groups.size() == 1) {
      groups = groups.items().front();
    }
    if (groups.is(Kind::dict)) {
      read_groups(groups, result);
    }
    read_buffers(saved, contents, two_optimizers, result);
    return result;
  });
}

} // namespace cairn::checkpoints::megatron
