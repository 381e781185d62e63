#include "kernels/internal/cpu/product_table.h"
#include "kernels/internal/cpu/score_row.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <string>

// parts_bench: parts of a training step that are our own kernels, beside
// libtorch's operators, on one thread: attention, GELU, the softmax of a
// vocabulary's scores, each forward and backward as training uses them. Seconds
// are those of the processor, the least of several calls. One line of JSON; the
// value is the least ratio.

namespace {

namespace cpu = cairn::kernels::cpu;

double seconds(auto&& work) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) +
        1e-9 * static_cast<double>(time.tv_nsec);
  };
  work();
  double best = 1e9;
  for (const double end = now() + 1; now() < end;) {
    const double start = now();
    work();
    best = std::min(best, now() - start);
  }
  return best;
}

struct Table {
  double least = 1e9;
  std::string rows;

  void add(const std::string& part, double theirs, double ours) {
    least = std::min(least, theirs / ours);
    rows += fmt::format(
        R"({}{{"part": "{}", "cairn_ms": {:.3f}, "libtorch_ms": {:.3f}, "ratio": {:.2f}}})",
        rows.empty() ? "" : ", ",
        part,
        1e3 * ours,
        1e3 * theirs,
        theirs / ours);
  }
};

void attention(
    Table& table,
    std::int64_t batch,
    std::int64_t heads,
    std::int64_t length,
    std::int64_t size) {
  const auto made = [&] { return at::randn({batch, length, heads, size}); };
  const auto heads_first = [](const at::Tensor& x) {
    return x.transpose(1, 2).detach().requires_grad_();
  };
  const at::Tensor query = made();
  const at::Tensor key = made();
  const at::Tensor value = made();
  const at::Tensor gradient = made();
  const at::Tensor q = heads_first(query);
  const at::Tensor k = heads_first(key);
  const at::Tensor v = heads_first(value);
  const double theirs = seconds([&] {
    const at::Tensor out =
        at::scaled_dot_product_attention(q, k, v, {}, 0, true);
    out.backward(gradient.transpose(1, 2));
    for (const at::Tensor* x : {&q, &k, &v}) {
      x->mutable_grad() = at::Tensor();
    }
  });
  at::Tensor output = at::empty_like(query);
  at::Tensor of_query = at::empty_like(query);
  const at::Tensor log_sum = at::empty({batch, heads, length});
  const cpu::HeadShape shape{
      length,
      length,
      size,
      1 / std::sqrt(static_cast<float>(size)),
      true};
  const double ours = seconds([&] {
    at::Tensor of_key = at::zeros_like(key);
    at::Tensor of_value = at::zeros_like(value);
    for (std::int64_t i = 0; i < batch * heads; ++i) {
      const std::int64_t first =
          (i / heads * length * heads + i % heads) * size;
      const std::int64_t step = heads * size;
      const auto in = [&](const at::Tensor& x) {
        return cpu::HeadRows<const float>{
            x.const_data_ptr<float>() + first,
            step};
      };
      const auto out = [&](const at::Tensor& x) {
        return cpu::HeadRows<float>{x.mutable_data_ptr<float>() + first, step};
      };
      float* const sums = log_sum.mutable_data_ptr<float>() + i * length;
      const cpu::HeadInput input{in(query), in(key), in(value)};
      cpu::attend_head(shape, input, out(output), sums);
      cpu::attend_head_backward(
          shape,
          input,
          in(output),
          in(gradient),
          sums,
          {out(of_query), out(of_key), out(of_value)});
    }
  });
  table.add(
      fmt::format("attention {} x {} x {} x {}", batch, heads, length, size),
      theirs,
      ours);
}

void gelu(Table& table) {
  const at::Tensor x = at::randn({2048, 1536});
  const at::Tensor gradient = at::randn({2048, 1536});
  const double theirs = seconds([&] {
    at::gelu(x, "tanh");
    at::gelu_backward(gradient, x, "tanh");
  });
  const double ours = seconds([&] {
    const at::Tensor y = at::empty_like(x);
    const at::Tensor slope = at::empty_like(x);
    cpu::gelu(
        cpu::Gelu::tanh,
        x.const_data_ptr<float>(),
        y.mutable_data_ptr<float>(),
        slope.mutable_data_ptr<float>(),
        x.numel());
    gradient* slope;
  });
  table.add("GELU 2048 x 1536", theirs, ours);
}

void scores(Table& table) {
  constexpr std::int64_t rows = 256;
  constexpr std::int64_t columns = 50257;
  at::Tensor x = at::randn({rows, columns});
  const double theirs = seconds([&] {
    x.sub_(x.amax(1).unsqueeze(1));
    x.exp_().sum(1);
  });
  const double ours = seconds([&] {
    for (std::int64_t i = 0; i < rows; ++i) {
      float* const row = x.mutable_data_ptr<float>() + i * columns;
      cpu::exponentials(
          row,
          columns,
          columns,
          1,
          cpu::highest_of(row, columns));
    }
  });
  table.add("scores 256 x 50257", theirs, ours);
}

} // namespace

int main() {
  at::set_num_threads(1);
  if (!cpu::has_matrix_product()) {
    fmt::print(stderr, "parts_bench: this CPU has none of our kernels\n");
    return 1;
  }
  Table table;
  attention(table, 12, 4, 64, 32);
  attention(table, 4, 12, 64, 64);
  attention(table, 8, 6, 256, 64);
  attention(table, 1, 12, 1024, 64);
  gelu(table);
  scores(table);
  fmt::print(
      R"({{"value": {:.3f}, "unit": "x libtorch", "kernels": "{}", "parts": [{}]}})"
      "\n",
      table.least,
      cpu::product_table().name,
      table.rows);
  return 0;
}
