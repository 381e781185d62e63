#pragma once

namespace cairn::kernels::cpu {
namespace { // see scalar.h

/// Calls step(i) for i below n, all of them unrolled.
template <int n, class Step>
[[gnu::always_inline]] inline void each_of(const Step& step) {
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) {
    step(i);
  }
}

/// x = e^x of n vectors, to 2 units in the last place, for x from -87.3 to
/// 88.3. Beyond that range the result is that of the nearer end: almost 0, or
/// 2e38. nan stays nan.
///
/// Each step is done for all vectors before the next: for one vector alone
/// every operation would wait for the one before.
template <class V, int n>
[[gnu::always_inline]] inline void exp_of(V (&x)[n]) {
  V whole[n];
  V p[n];
  const auto each = [](const auto& step) { each_of<n>(step); };
  const auto next = [&](float coefficient) {
    each([&](int i) { p[i] = fma(p[i], x[i], V(coefficient)); });
  };
  each([&](int i) { x[i] = clamped(x[i], -87.3F, 88.3F); });
  // e^x = 2^n e^r with |r| <= ln 2 / 2; ln 2 in two parts, so that r is exact.
  each([&](int i) { whole[i] = nearest(x[i] * V(1.44269504F)); });
  each([&](int i) { x[i] = fma(whole[i], V(-0.693359375F), x[i]); });
  each([&](int i) { x[i] = fma(whole[i], V(2.12194440e-4F), x[i]); });
  each([&](int i) { p[i] = V(1.9875691500e-4F); });
  next(1.3981999507e-3F);
  next(8.3334519073e-3F);
  next(4.1665795894e-2F);
  next(1.6666665459e-1F);
  next(5.0000001201e-1F);
  each([&](int i) { p[i] = fma(x[i] * x[i], p[i], x[i]) + V(1); });
  each([&](int i) { x[i] = scaled(p[i], whole[i]); });
}

} // namespace
} // namespace cairn::kernels::cpu
