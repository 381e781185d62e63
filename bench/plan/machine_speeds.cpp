#include "plan/machine_speeds.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <sys/resource.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

using cairn::plan::MeasuredSpeeds;
using cairn::plan::speed_at;
using cairn::plan::SpeedAt;

double computed_so_far() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec) +
      1e-6 * static_cast<double>(used.ru_utime.tv_usec);
}

double computing_seconds(const std::function<void()>& call) {
  constexpr double enough = 0.1;
  constexpr std::size_t least = 5;
  call();
  std::vector<double> times;
  double sum = 0;
  while (times.size() < least || sum < enough) {
    const double begin = computed_so_far();
    call();
    times.push_back(computed_so_far() - begin);
    sum += times.back();
  }
  std::ranges::nth_element(times, times.begin() + times.size() / 2);
  return times[times.size() / 2];
}

namespace {

constexpr double element = sizeof(float);

/// Operations a second of a linear layer: its product with the bias, the two
/// products that are its backward pass, and the bias's gradient.
SpeedAt product_speed(std::int64_t rows, std::int64_t out, std::int64_t in) {
  const at::Tensor x = at::rand({rows, in});
  const at::Tensor w = at::rand({out, in});
  const at::Tensor b = at::rand({out});
  const at::Tensor g = at::rand({rows, out});
  const double time = computing_seconds([&] {
    at::linear(x, w, b);
    at::mm(g, w);
    at::mm(g.t(), x);
    at::sum(g, {0});
  });
  const double operations = 2 * static_cast<double>(rows * out * in);
  return {.size = operations, .speed = 3 * operations / time};
}

/// Both passes of attention; the planner counts them as 3.5 forward ones.
SpeedAt attention_speed(const NetSizes& net) {
  const auto heads = [&] {
    return at::rand(
               {net.batch, net.heads, net.sequence, net.hidden / net.heads})
        .requires_grad_();
  };
  const at::Tensor q = heads();
  const at::Tensor k = heads();
  const at::Tensor v = heads();
  const at::Tensor g = at::rand_like(q);
  const double time = computing_seconds([&] {
    at::scaled_dot_product_attention(q, k, v, {}, 0, /*is_causal=*/true)
        .backward(g);
  });
  const double operations = 2 *
      static_cast<double>(net.batch * net.sequence * net.sequence * net.hidden);
  return {.size = operations, .speed = 3.5 * operations / time};
}

std::vector<SpeedAt> traffic_speeds() {
  std::vector<SpeedAt> curve;
  for (std::int64_t elements = 1 << 14; elements <= 1 << 26; elements *= 4) {
    at::Tensor sum = at::rand({elements});
    const at::Tensor other = at::rand({elements});
    const double time = computing_seconds([&] { sum.add_(other); });
    const double bytes = element * static_cast<double>(elements);
    curve.push_back({.size = bytes, .speed = 3 * bytes / time});
  }
  return curve;
}

/// Passes over memory of a norm, a sum and a GELU, forward and backward, in
/// units of what each must read and write.
double passes_of(const NetSizes& net, const std::vector<SpeedAt>& traffic) {
  const std::int64_t rows = net.batch * net.sequence;
  const at::Tensor x = at::rand({rows, net.hidden}).requires_grad_();
  const at::Tensor branch = at::rand({rows, net.hidden}).requires_grad_();
  const at::Tensor wide = at::rand({rows, 4 * net.hidden}).requires_grad_();
  const at::Tensor weight = at::rand({net.hidden}).requires_grad_();
  const at::Tensor bias = at::rand({net.hidden}).requires_grad_();
  const at::Tensor g = at::rand({rows, net.hidden});
  const at::Tensor g_wide = at::rand({rows, 4 * net.hidden});
  const double time = computing_seconds([&] {
    at::layer_norm(at::add(x, branch), {net.hidden}, weight, bias).backward(g);
    at::gelu(wide, "tanh").backward(g_wide);
  });
  const double tensor = element * static_cast<double>(rows * net.hidden);
  constexpr double forward = 2 + 3 + 2 * 4; // tensors read and written
  constexpr double all = 3 * forward;       // backward is twice that
  return time * speed_at(traffic, tensor) / (all * tensor);
}

/// Seconds of an operator on a single number, in one of the two passes.
double operator_seconds() {
  constexpr int count = 50;
  const at::Tensor x = at::rand({1}).requires_grad_();
  const double time = computing_seconds([&] {
    at::Tensor y = x;
    for (int i = 0; i < count; ++i) {
      y = at::add(y, x);
    }
    y.backward();
  });
  return time / (3 * count); // backward counts as two
}

} // namespace

MeasuredSpeeds measure_speeds(const NetSizes& net) {
  const std::int64_t rows = net.batch * net.sequence;
  const std::int64_t h = net.hidden;
  std::map<double, double> products;
  for (const auto& [out, in] : std::array<std::array<std::int64_t, 2>, 4>{
           {{h, h}, {3 * h, h}, {4 * h, h}, {net.vocabulary, h}}}) {
    const SpeedAt point = product_speed(rows, out, in);
    products[point.size] = point.speed;
  }
  MeasuredSpeeds measured;
  for (const auto& [size, speed] : products) {
    measured.products.push_back({.size = size, .speed = speed});
  }
  measured.attention = {attention_speed(net)};
  measured.traffic = traffic_speeds();
  measured.passes = passes_of(net, measured.traffic);
  measured.operator_seconds = operator_seconds();
  return measured;
}
