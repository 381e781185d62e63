// The kernels of a step that computes one token of each text, and those that
// read prompts, against the same formulas in double precision.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/cuda_test.h"
#include "kernels/internal/cuda/few_rows.h"
#include "kernels/internal/cuda/kept_attention.h"
#include "kernels/internal/cuda/text_rows.h"

namespace cairn::kernels::cuda_text_rows_test {
namespace {

using at::Tensor;
using cuda::Start;
using cuda_test::device;
using cuda_test::exact;
using cuda_test::expect_near;
using cuda_test::random;
using cuda_test::started;
using cuda_test::stream;
using cuda_test::Type;
using cuda_test::types;

const void* data(const Tensor& x) {
  return x.defined() ? x.const_data_ptr() : nullptr;
}

Tensor integers(const std::vector<std::int32_t>& values) {
  return at::tensor(values, at::TensorOptions(at::kInt)).to(device);
}

/// Memory full of NaN, so that what a kernel does not write shows.
Tensor unset(at::IntArrayRef shape, const Type& type) {
  return at::full(
      shape,
      std::numeric_limits<double>::quiet_NaN(),
      at::TensorOptions(device).dtype(type.dtype));
}

Tensor activated(const Tensor& x, cuda::Activation kind) {
  switch (kind) {
    case cuda::Activation::none:
      return x;
    case cuda::Activation::gelu:
      return at::gelu(x);
    case cuda::Activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case cuda::Activation::relu:
      return at::relu(x);
    case cuda::Activation::squared_relu:
      return at::relu(x).square();
    case cuda::Activation::silu:
      return at::silu(x);
  }
  return x;
}

Tensor normalized(const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  const Tensor from = beta.defined() ? x - x.mean(1, true) : x;
  const Tensor spread = from.square().mean(1, true) + 1e-5;
  const Tensor y = from / spread.sqrt() * exact(gamma);
  return beta.defined() ? y + exact(beta) : y;
}

enum class Norm { none, layer_norm, rms_norm };

struct Case {
  std::int64_t rows, depth, outputs;
  Norm norm = Norm::none;
  bool bias = true;
  bool gate = false;
  bool adds = false;
  cuda::Activation activation = cuda::Activation::none;
  bool floats = false;
};

void expect_product(
    const Case& c,
    const Type& type,
    Start start,
    bool by_copies) {
  const Tensor x = random({c.rows, c.depth}, type);
  const auto weight = [&] {
    return random({c.outputs, c.depth}, type).mul_(0.1);
  };
  const auto row = [&](bool exists, std::int64_t size) {
    return exists ? random({size}, type) : Tensor();
  };
  const Tensor up = weight();
  const Tensor gate = c.gate ? weight() : Tensor();
  const Tensor bias = row(c.bias, c.outputs);
  const Tensor gate_bias = row(c.bias && c.gate, c.outputs);
  const Tensor gamma = row(c.norm != Norm::none, c.depth);
  const Tensor beta = row(c.norm == Norm::layer_norm, c.depth);
  const Type result{
      c.floats ? at::kFloat : type.dtype,
      c.floats ? Element::fp32 : type.element,
      0};
  const Tensor y = c.adds ? random({c.rows, c.outputs}, result)
                          : unset({c.rows, c.outputs}, result);
  Tensor inner = exact(x);
  if (c.norm != Norm::none) {
    inner = exact(normalized(inner, gamma, beta).to(type.dtype));
  }
  const auto product = [&](const Tensor& w, const Tensor& b) {
    const Tensor sum = inner.mm(exact(w).t());
    return b.defined() ? sum + exact(b) : sum;
  };
  Tensor expected = product(up, bias);
  if (c.gate) {
    expected = expected * activated(product(gate, gate_bias), c.activation);
  } else {
    expected = activated(expected, c.activation);
  }
  if (c.adds) {
    expected = expected + exact(y);
  }
  const cuda::FewRowsProduct few{
      .rows = c.rows,
      .depth = c.depth,
      .outputs = c.outputs,
      .element = type.element,
      .x = data(x),
      .norm =
          {.gamma = data(gamma),
           .beta = data(beta),
           .centred = c.norm == Norm::layer_norm,
           .epsilon = 1e-5F},
      .weight = data(up),
      .bias = data(bias),
      .gate = data(gate),
      .gate_bias = data(gate_bias),
      .activation = c.activation,
      .addend = c.adds ? data(y) : nullptr,
      .y = y.mutable_data_ptr(),
      .y_element = result.element,
      .by_copies = by_copies};
  ASSERT_TRUE(cuda::takes(few));
  started(cuda::multiply_few_rows(few, start, stream()));
  // Norms are rounded before the product here and there, sometimes apart.
  expect_near(
      y,
      expected,
      (c.norm == Norm::none ? 1 : 4) * (c.floats ? 1e-3 : 2 * type.step));
}

TEST(TextRows, ProductsOfFewRows) {
  at::manual_seed(5);
  using cuda::Activation;
  const Case cases[] = {
      {1, 64, 8},
      {2, 40, 24, Norm::layer_norm},
      {1, 8, 3, Norm::rms_norm, false},
      {3, 264, 50, Norm::layer_norm, true, false, false, Activation::gelu},
      {8, 96, 40, Norm::rms_norm, false, true, false, Activation::silu},
      {5, 72, 61, Norm::none, true, true, false, Activation::gelu_tanh},
      {8, 72, 24, Norm::none, true, false, true},
      {4, 48, 100, Norm::layer_norm, true, false, false, Activation::gelu_tanh},
      {7,
       136,
       133,
       Norm::layer_norm,
       false,
       false,
       false,
       Activation::relu,
       true},
      {6, 40, 200, Norm::none, true, false, true, Activation::none}};
  for (const Type& type : types) {
    if (type.element == Element::fp32) {
      continue;
    }
    for (const Case& each : cases) {
      SCOPED_TRACE(
          ::testing::Message() << type.dtype << " " << each.rows << " x "
                               << each.depth << " x " << each.outputs);
      expect_product(each, type, Start::early, true);
      expect_product(each, type, Start::early, false);
    }
    expect_product(cases[1], type, Start::after, true);
  }
}

#ifndef CAIRN_CUDA_ON_CPU
TEST(TextRows, LargeProductsOfFewRows) {
  at::manual_seed(6);
  using cuda::Activation;
  const Case cases[] = {
      {1, 1600, 4800, Norm::layer_norm},
      {1, 1600, 1600, Norm::none, true, false, true},
      {2,
       1600,
       6400,
       Norm::layer_norm,
       true,
       false,
       false,
       Activation::gelu_tanh},
      {8, 6400, 1600, Norm::none, true, false, true},
      {1, 6400, 1600, Norm::none, true, false, true},
      {3, 2048, 8192, Norm::rms_norm, false, true, false, Activation::silu},
      {1,
       768,
       50264,
       Norm::layer_norm,
       false,
       false,
       false,
       Activation::none,
       true}};
  for (const Case& each : cases) {
    SCOPED_TRACE(
        ::testing::Message()
        << each.rows << " x " << each.depth << " x " << each.outputs);
    for (const bool by_copies : {true, false}) {
      expect_product(each, types[2], Start::early, by_copies);
      expect_product(each, types[1], Start::after, by_copies);
    }
  }
}
#endif

TEST(TextRows, ProductsThatAreNotTaken) {
  const Tensor x = random({9, 24}, types[2]);
  cuda::FewRowsProduct few{
      .rows = 1,
      .depth = 16,
      .outputs = 9,
      .x = data(x),
      .weight = data(x)};
  EXPECT_TRUE(cuda::takes(few));
  const auto with = [&](const auto& change) {
    cuda::FewRowsProduct changed = few;
    change(changed);
    return cuda::takes(changed);
  };
  EXPECT_FALSE(with([](auto& p) { p.rows = 9; }));
  EXPECT_FALSE(with([](auto& p) { p.depth = 12; }));
  EXPECT_FALSE(with([](auto& p) { p.element = Element::fp32; }));
  EXPECT_FALSE(with([&](auto& p) {
    p.weight = static_cast<const std::uint16_t*>(data(x)) + 1;
  }));
}

TEST(TextRows, EmbeddingsAndNorms) {
  at::manual_seed(3);
  for (const Type& type : types) {
    for (const std::int64_t columns : {40, 61, 2064}) {
      SCOPED_TRACE(::testing::Message() << type.dtype << " " << columns);
      const Tensor words = random({7, columns}, type);
      const Tensor positions = random({9, columns}, type);
      const Tensor rows = integers({3, 6, 0, 0, 1, 2, 4, 0, 6});
      const auto* first = rows.const_data_ptr<std::int32_t>();
      const Tensor y = unset({3, columns}, type);
      for (const bool learned : {true, false}) {
        started(cuda::embed(
            {3, first, first + 3, first + 6},
            {.columns = columns,
             .element = type.element,
             .words = data(words),
             .positions = learned ? data(positions) : nullptr,
             .offset = 2,
             .y = y.mutable_data_ptr()},
            stream()));
        const Tensor word = exact(words).index_select(
            0,
            rows.cpu().slice(0, 0, 3).to(at::kLong));
        const Tensor position = exact(positions).index_select(
            0,
            rows.cpu().slice(0, 6, 9).to(at::kLong) + 2);
        expect_near(y, learned ? word + position : word, type.step);
      }
      const Tensor gamma = random({columns}, type);
      const Tensor beta = random({columns}, type);
      for (const bool centred : {true, false}) {
        const Tensor normal = unset({2, columns}, type);
        const Tensor which = integers({2, 0});
        started(cuda::normalize(
            {.rows = 2,
             .columns = columns,
             .element = type.element,
             .x = data(y),
             .which = which.const_data_ptr<std::int32_t>(),
             .y = normal.mutable_data_ptr()},
            {.gamma = data(gamma),
             .beta = centred ? data(beta) : nullptr,
             .centred = centred},
            Start::early,
            stream()));
        expect_near(
            normal,
            normalized(
                exact(y).index_select(0, which.cpu().to(at::kLong)),
                gamma,
                centred ? beta : Tensor()),
            4 * type.step);
      }
    }
  }
}

TEST(TextRows, Activations) {
  at::manual_seed(4);
  for (const Type& type : types) {
    for (const auto kind :
         {cuda::Activation::gelu,
          cuda::Activation::gelu_tanh,
          cuda::Activation::relu,
          cuda::Activation::squared_relu,
          cuda::Activation::silu}) {
      for (const bool gated : {true, false}) {
        const Tensor x = random({3, 37}, type);
        const Tensor up = random({3, 37}, type);
        Tensor expected = activated(exact(x), kind);
        if (gated) {
          expected = expected * exact(up);
        }
        started(cuda::activate(
            kind,
            type.element,
            x.numel(),
            x.mutable_data_ptr(),
            gated ? data(up) : nullptr,
            stream()));
        expect_near(x, expected, type.step);
      }
    }
  }
}

TEST(TextRows, PeaksOfScores) {
  at::manual_seed(8);
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const std::int64_t columns : {1, 61, 5003, 50257}) {
    const std::int64_t step = (columns + 7) / 8 * 8;
    const Tensor scores = random({6, step}, types[0]).mul_(5);
    const auto limit = static_cast<std::int32_t>((columns + 1) / 2);
    const auto all = static_cast<std::int32_t>(columns);
    const Tensor limits = integers({all, limit, all, all, all, all});
    if (columns > 60) {
      scores[2].fill_(-inf);
      scores[3][60] = inf;
      scores[4][60] = std::nan("");
      scores[5].fill_(-7); // the first of equal ones
      scores[5][3] = 9;
      scores[5][60] = 9;
    }
    const Tensor peaks = unset({6, 3}, types[0]);
    started(cuda::find_peaks(
        {.rows = 6,
         .columns = columns,
         .step = step,
         .scores = scores.const_data_ptr<float>(),
         .limits = limits.const_data_ptr<std::int32_t>()},
        static_cast<cuda::ScorePeak*>(peaks.mutable_data_ptr()),
        Start::early,
        stream()));
    const Tensor found = peaks.cpu();
    const auto* const peak =
        static_cast<const cuda::ScorePeak*>(found.const_data_ptr());
    const Tensor wanted = exact(scores).narrow(1, 0, columns);
    for (int row = 0; row < 6; ++row) {
      SCOPED_TRACE(::testing::Message() << columns << " row " << row);
      if (columns > 60 && row >= 2 && row <= 4) {
        EXPECT_TRUE(
            row == 2 ? peak[row].highest == -inf
                     : std::isnan(peak[row].highest));
        continue;
      }
      const Tensor some =
          wanted[row].narrow(0, 0, limits.cpu()[row].item<int>());
      EXPECT_EQ(peak[row].column, some.argmax().item<std::int64_t>());
      EXPECT_EQ(peak[row].highest, some.max().item<double>());
      EXPECT_NEAR(
          peak[row].log_sum,
          wanted[row].logsumexp(0).item<double>(),
          1e-4);
    }
  }
}

/// Texts with keys and values in pages, and rows that are tokens of them.
struct Kept {
  Kept(
      const Type& kind,
      int groups,
      int queries,
      int size,
      bool rotary,
      int page_tokens)
      : type(kind), heads{groups, queries, size} {
    constexpr int texts = 3;
    constexpr int longest = 70;
    const int row = (size + 7) / 8 * 8;
    const int width = (longest + page_tokens - 1) / page_tokens;
    memory = unset(
        {texts * width + 1, 2, 2, groups, page_tokens, row},
        type); // two layers
    // A text's pages lie anywhere.
    table = at::randperm(texts * width, at::TensorOptions(at::kInt))
                .view({texts, width})
                .to(device);
    if (rotary) {
      const Tensor angle =
          at::rand({longest, size / 2}, at::TensorOptions(at::kFloat)) * 6;
      cosine = angle.cos().to(device);
      sine = angle.sin().to(device);
      heads.cosine = cosine.const_data_ptr<float>();
      heads.sine = sine.const_data_ptr<float>();
    }
    pages = {
        .data = memory.mutable_data_ptr(),
        .element = type.element,
        .page_step = memory.stride(0),
        .keys_at = memory.stride(1), // the second layer
        .values_at = memory.stride(1) + memory.stride(2),
        .head_step = memory.stride(3),
        .page_tokens = page_tokens,
        .row = row,
        .table = table.const_data_ptr<std::int32_t>(),
        .width = width};
  }

  /// Turns [rows, heads, size] by the rows' positions, in double.
  Tensor turned(const Tensor& x, const Tensor& positions) const {
    if (!cosine.defined()) {
      return x;
    }
    const std::int64_t half = heads.size / 2;
    const auto at_rows = [&](const Tensor& angles) {
      return exact(angles).index_select(0, positions).unsqueeze(1);
    };
    const Tensor c = at_rows(cosine);
    const Tensor s = at_rows(sine);
    const Tensor first = x.narrow(2, 0, half);
    const Tensor second = x.narrow(2, half, half);
    return at::cat({first * c - second * s, second * c + first * s}, 2);
  }

  Type type;
  cuda::TextHeads heads;
  Tensor memory, table, cosine, sine;
  cuda::KeptPages pages;
};

struct Rows {
  explicit Rows(const std::vector<std::int32_t>& numbers)
      : words(integers(numbers)), count(std::ssize(numbers) / 2) {}
  /// Places first, then positions.
  cuda::TextRows rows() const {
    const auto* first = words.const_data_ptr<std::int32_t>();
    return {count, nullptr, first, first + count};
  }
  Tensor positions() const {
    return words.cpu().narrow(0, count, count).to(at::kLong);
  }
  Tensor words;
  std::int64_t count;
};

/// Reads prompts of all lengths into pages, then single tokens, and compares
/// with attention to all tokens in double.
void expect_attention(const Kept& kept, int splits) {
  const Type& type = kept.type;
  const std::int64_t groups = kept.heads.groups;
  const std::int64_t queries = kept.heads.queries;
  const std::int64_t size = kept.heads.size;
  const std::vector<int> lengths{68, 1, 17};
  std::vector<std::int32_t> places;
  std::vector<std::int32_t> positions;
  for (int text = 0; text < 3; ++text) {
    for (int i = 0; i < lengths[static_cast<std::size_t>(text)]; ++i) {
      places.push_back(text);
      positions.push_back(i);
    }
  }
  const auto rows_of = [](std::vector<std::int32_t> a,
                          const std::vector<std::int32_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return Rows(a);
  };
  const Rows prompt = rows_of(places, positions);
  const Rows next = rows_of({2, 0, 1}, {17, 68, 1});
  const auto projected_of = [&](const Rows& rows) {
    return random({rows.count, groups, queries + 2, size}, type);
  };
  const Tensor first = projected_of(prompt);
  const Tensor last = projected_of(next);
  const Tensor query = unset({prompt.count, groups * queries, size}, type);
  const Tensor key = unset({prompt.count, groups, size}, type);
  const Tensor value = unset({prompt.count, groups, size}, type);
  started(cuda::split_and_keep(
      prompt.rows(),
      kept.heads,
      kept.pages,
      {type.element,
       data(first),
       query.mutable_data_ptr(),
       key.mutable_data_ptr(),
       value.mutable_data_ptr()},
      stream()));
  const auto part = [&](const Tensor& x, std::int64_t begin, std::int64_t n) {
    return exact(x).narrow(2, begin, n).reshape({x.size(0), groups * n, size});
  };
  const Tensor turned_query =
      kept.turned(part(first, 0, queries), prompt.positions());
  const Tensor turned_key =
      kept.turned(part(first, queries, 1), prompt.positions());
  expect_near(query, turned_query, type.step);
  expect_near(key, turned_key, type.step);
  expect_near(value, part(first, queries + 1, 1), type.step);

  // The text in the middle of the prompts, read back from its pages.
  const Tensor read_key = unset({17, groups, size}, type);
  const Tensor read_value = unset({17, groups, size}, type);
  started(cuda::read_pages(
      kept.pages,
      2,
      17,
      kept.heads,
      read_key.mutable_data_ptr(),
      read_value.mutable_data_ptr(),
      stream()));
  EXPECT_TRUE(read_key.equal(key.narrow(0, 69, 17)));
  EXPECT_TRUE(read_value.equal(value.narrow(0, 69, 17)));

  const float scale = 0.4F;
  const auto expected = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    // q [heads, size], k and v [tokens, groups, size]
    const auto of_heads = [&](const Tensor& x) {
      return x.permute({1, 0, 2}).repeat_interleave(queries, 0);
    };
    const Tensor scores =
        at::bmm(of_heads(k), q.unsqueeze(2)).squeeze(2) * double{scale};
    return at::bmm(scores.softmax(1).unsqueeze(1), of_heads(v)).squeeze(1);
  };
  const auto attention = [&](bool fresh, const Tensor& q, const Tensor& y) {
    cuda::KeptAttention x{
        .heads = kept.heads,
        .fresh = fresh,
        .query = data(q),
        .scale = scale,
        .y = y.mutable_data_ptr()};
    x.splits = fresh ? splits : 1;
    return x;
  };
  const Tensor all = unset({prompt.count, groups * queries, size}, type);
  started(cuda::attend_kept(
      prompt.rows(),
      kept.pages,
      attention(false, query, all),
      Start::after,
      stream()));
  for (const std::int64_t row : {0, 5, 67, 68, 69, 85}) {
    const std::int64_t begin = row < 68 ? 0 : row < 69 ? 68 : 69;
    expect_near(
        all[row],
        expected(
            exact(query)[row],
            exact(key).narrow(0, begin, row - begin + 1),
            exact(value).narrow(0, begin, row - begin + 1)),
        2 * type.step);
  }

  const Tensor parts = unset(
      {cuda::attention_part_floats(kept.heads, next.count, splits)},
      types[0]);
  const Tensor counters = at::zeros(
      {cuda::attention_counters(kept.heads, next.count)},
      at::TensorOptions(device).dtype(at::kInt));
  const Tensor y = unset({next.count, groups * queries, size}, type);
  cuda::KeptAttention x = attention(true, last, y);
  x.parts = parts.mutable_data_ptr<float>();
  x.counters = static_cast<std::uint32_t*>(counters.mutable_data_ptr());
  const Tensor own_query =
      kept.turned(part(last, 0, queries), next.positions());
  const Tensor own_key =
      kept.turned(part(last, queries, 1), next.positions()).to(type.dtype);
  const Tensor own_value = part(last, queries + 1, 1);
  for (int repeat = 0; repeat < 2; ++repeat) {
    y.fill_(std::nan(""));
    started(
        cuda::attend_kept(next.rows(), kept.pages, x, Start::early, stream()));
    EXPECT_EQ(counters.ne(0).sum().item<int>(), 0);
    const std::int64_t begins[] = {69, 0, 68};
    const std::int64_t counts[] = {17, 68, 1};
    for (std::int64_t row = 0; row < 3; ++row) {
      const auto with_own = [&](const Tensor& kept_rows, const Tensor& own) {
        return at::cat(
            {exact(kept_rows).narrow(0, begins[row], counts[row]),
             exact(own).narrow(0, row, 1)});
      };
      expect_near(
          y[row],
          expected(
              own_query[row],
              with_own(key, own_key),
              with_own(value, own_value)),
          2 * type.step);
    }
  }
  // The new key and value are in the pages now.
  const Tensor new_key = unset({69, groups, size}, type);
  const Tensor new_value = unset({69, groups, size}, type);
  started(cuda::read_pages(
      kept.pages,
      0,
      69,
      kept.heads,
      new_key.mutable_data_ptr(),
      new_value.mutable_data_ptr(),
      stream()));
  expect_near(new_key[68], exact(own_key)[1], type.step);
  expect_near(new_value[68], own_value[1], type.step);
  EXPECT_TRUE(new_key.narrow(0, 0, 68).equal(key.narrow(0, 0, 68)));
}

TEST(TextRows, AttentionToKeptKeys) {
  at::manual_seed(11);
  struct Shape {
    int groups, queries, size;
    bool rotary;
    int page_tokens;
  };
  for (const Type& type : types) {
    for (const Shape& s :
         {Shape{2, 1, 64, false, 16},
          Shape{2, 2, 10, true, 5},
          Shape{1, 6, 128, true, 16},
          Shape{1, 1, 20, true, 7},
          Shape{1, 4, 136, false, 16}}) {
      for (const int splits : {1, 4}) {
        SCOPED_TRACE(
            ::testing::Message() << type.dtype << " size " << s.size << " of "
                                 << s.queries << " splits " << splits);
        expect_attention(
            Kept(type, s.groups, s.queries, s.size, s.rotary, s.page_tokens),
            splits);
      }
    }
  }
}

} // namespace
} // namespace cairn::kernels::cuda_text_rows_test
