#include "kernels/internal/cuda/choice_rows.h"
#include "kernels/internal/cuda/expert_choice.h"
#include "kernels/internal/cuda/group_rows.h"
#include "kernels/internal/cuda/mix_rows.h"
#include "kernels/more_rows.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace cairn::bench {
namespace {

using at::Tensor;
namespace cuda = kernels::cuda;

std::int64_t* longs(const Tensor& x) {
  return x.mutable_data_ptr<std::int64_t>();
}

struct Routing {
  std::int64_t tokens, experts, picks;
};

/// The experts of tokens, and the rows that their choices have.
class Routed {
 public:
  explicit Routed(const Routing& of)
      : shape_{of.tokens, of.experts, of.picks},
        sorted_{
            of.picks * of.tokens,
            of.tokens,
            of.experts,
            of.picks * of.tokens + 8 * of.experts,
            8},
        scores_(made({of.tokens, of.experts}, at::kFloat)),
        chosen_(space({of.picks, of.tokens}, at::kLong)),
        gates_(space({of.picks, of.tokens}, at::kFloat)),
        log_sums_(space({of.tokens}, at::kFloat)),
        means_(space({of.experts}, at::kFloat)),
        counts_(space({2, of.experts}, at::kLong)),
        ends_(space({of.experts}, at::kInt)),
        slots_(space({sorted_.choices}, at::kLong)),
        comers_(space({sorted_.rows}, at::kLong)),
        sources_(space({sorted_.rows}, at::kLong)),
        scratch_(space({cuda::choice_workspace(shape_)}, at::kInt)),
        sort_scratch_(space({cuda::sort_workspace(sorted_)}, at::kInt)) {}

  void choose() const {
    started(cuda::choose_experts(
        shape_,
        floats(scores_),
        {.experts = longs(chosen_),
         .gates = floats(gates_),
         .log_sums = floats(log_sums_),
         .means = floats(means_),
         .counts = longs(counts_),
         .firsts = longs(counts_[1])},
        scratch_.mutable_data_ptr(),
        stream()));
  }
  void choose_backward(const Tensor& of_scores) const {
    started(cuda::choose_experts_backward(
        shape_,
        floats(scores_),
        floats(log_sums_),
        longs(chosen_),
        floats(gates_),
        floats(means_),
        floats(of_scores),
        stream()));
  }
  void sort() const {
    started(cuda::sort_choices(
        sorted_,
        longs(chosen_),
        {.ends = ends_.mutable_data_ptr<std::int32_t>(),
         .slots = longs(slots_),
         .comers = longs(comers_),
         .sources = longs(sources_)},
        sort_scratch_.mutable_data_ptr<std::int32_t>(),
        stream()));
  }

  std::int64_t rows() const { return sorted_.rows; }
  const Tensor& scores() const { return scores_; }
  const Tensor& gates() const { return gates_; }
  const Tensor& slots() const { return slots_; }
  const Tensor& comers() const { return comers_; }
  const Tensor& sources() const { return sources_; }
  const Tensor& ends() const { return ends_; }

 private:
  cuda::ExpertChoice shape_;
  cuda::ChoiceRows sorted_;
  Tensor scores_, chosen_, gates_, log_sums_, means_, counts_;
  Tensor ends_, slots_, comers_, sources_, scratch_, sort_scratch_;
};

void choices(
    const ShareTable& table,
    const Routing& of,
    const Routed& routed,
    const std::string& shape) {
  const double scores = bytes_of(routed.scores());
  const double picked = static_cast<double>(of.picks * of.tokens);
  table.row("experts chosen", shape, scores + 12 * picked, [&] {
    routed.choose();
  });
  const Tensor of_scores = at::empty_like(routed.scores());
  table.row("gradients of scores", shape, 2 * scores + 12 * picked, [&] {
    routed.choose_backward(of_scores);
  });
  table.row("choices sorted", shape, 32 * picked, [&] { routed.sort(); });
  const Tensor halves = space({of.tokens, 2 * of.experts});
  table.row("floats split in two", shape, 2 * scores, [&] {
    started(cuda::split_floats(
        of.tokens,
        of.experts,
        floats(routed.scores()),
        halves.mutable_data_ptr(),
        stream()));
  });
}

void rows_of_choices(
    const ShareTable& table,
    const Routing& of,
    const Routed& routed,
    const std::string& shape) {
  constexpr std::int64_t hidden = 1024;
  const Tensor x = made({of.tokens, hidden});
  const Tensor rows = made({routed.rows(), hidden});
  const Tensor of_rows = at::empty_like(rows);
  const Tensor of_gates = at::empty_like(routed.gates());
  const double all = static_cast<double>(2 * hidden * of.picks * of.tokens);
  const std::string wide = fmt::format("{}, {} columns", shape, hidden);
  table.row("rows gathered", wide, 2 * all, [&] {
    started(cuda::mix_rows(
        {.count = routed.rows(),
         .picks = 1,
         .from = of.tokens,
         .columns = hidden},
        x.const_data_ptr(),
        longs(routed.sources()),
        nullptr,
        rows.mutable_data_ptr(),
        stream()));
  });
  const cuda::MixedRows answers{
      .count = of.tokens,
      .picks = of.picks,
      .from = routed.rows(),
      .columns = hidden};
  table.row("answers mixed", wide, all + bytes_of(x), [&] {
    started(cuda::mix_rows(
        answers,
        rows.const_data_ptr(),
        longs(routed.slots()),
        floats(routed.gates()),
        x.mutable_data_ptr(),
        stream()));
  });
  table.row("gradients of answers", wide, 2 * all + bytes_of(x), [&] {
    started(cuda::mix_rows_backward(
        answers,
        x.const_data_ptr(),
        rows.const_data_ptr(),
        longs(routed.comers()),
        floats(routed.gates()),
        of_rows.mutable_data_ptr(),
        floats(of_gates),
        stream()));
  });
}

void rows_of_groups(
    const ShareTable& table,
    const Routing& of,
    const Routed& routed,
    const std::string& shape) {
  constexpr std::int64_t columns = 4096;
  const Tensor x = made({routed.rows(), columns});
  const Tensor y = at::empty_like(x);
  const Tensor biases = made({of.experts, columns});
  const cuda::GroupedRows groups{
      .rows = routed.rows(),
      .columns = columns,
      .groups = of.experts,
      .ends = routed.ends().const_data_ptr<std::int32_t>()};
  const Tensor parts =
      space({of.experts, cuda::group_parts(groups), columns}, at::kFloat);
  const double all = static_cast<double>(2 * columns * of.picks * of.tokens);
  const std::string wide = fmt::format("{}, {} columns", shape, columns);
  table.row("biases of experts", wide, 2 * all, [&] {
    started(cuda::add_group_biases(
        groups,
        biases.const_data_ptr(),
        x.mutable_data_ptr(),
        stream()));
  });
  table.row("biases and GELU of experts", wide, 3 * all, [&] {
    started(cuda::add_group_biases_gelu(
        groups,
        cuda::Gelu::tanh,
        biases.const_data_ptr(),
        x.mutable_data_ptr(),
        y.mutable_data_ptr(),
        stream()));
  });
  table.row("sums of experts' rows", wide, all, [&] {
    started(
        cuda::group_sums(groups, x.const_data_ptr(), floats(parts), stream()));
  });
  table.row("GELU backward of experts, sums", wide, 3 * all, [&] {
    started(cuda::group_gelu_backward(
        groups,
        cuda::Gelu::tanh,
        x.const_data_ptr(),
        y.mutable_data_ptr(),
        floats(parts),
        stream()));
  });
}

} // namespace

void expert_kernels(const ShareTable& table) {
  for (const Routing& of : {Routing{65536, 8, 1}, Routing{16384, 128, 2}}) {
    const std::string shape =
        fmt::format("{} tokens, {} of {}", of.tokens, of.picks, of.experts);
    const Routed routed(of);
    routed.choose();
    routed.sort();
    choices(table, of, routed, shape);
    rows_of_choices(table, of, routed, shape);
    rows_of_groups(table, of, routed, shape);
  }
}

} // namespace cairn::bench
