// CPU kernels of an optimizer step: the norm of a gradient, and AdamW in one pass over a parameter.
// Work is cut into pieces that do not depend on the number of threads, so results do not either.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernel.h"

namespace {

constexpr int64_t PIECE = 1 << 14;  // elements of one task

inline int64_t count_of(const int64_t *shape, int ndim) {
  int64_t count = 1;
  for (int i = 0; i < ndim; i++) count *= shape[i];
  return count;
}

inline float square_of(const float *x, int64_t count) {
  vfloat even{}, odd{};
  int64_t i = 0;
  for (; i + 2 * LANES <= count; i += 2 * LANES) {
    const vfloat a = load(x + i), b = load(x + i + LANES);
    even += a * a;
    odd += b * b;
  }
  float total = sum(even + odd);
  for (; i < count; i++) total += x[i] * x[i];
  return total;
}

}  // namespace

// any number of gradients -> the sum of all their squares
KERNEL(sum_of_squares) {
  const int num_gradients = nparam - 1;
  double total = 0;
  for (int n = 0; n < num_gradients; n++) {
    const float *x = in(params, n);
    const int64_t count = count_of(shapes[n], ndims[n]), pieces = (count + PIECE - 1) / PIECE;
    std::vector<float> sums(pieces);
#pragma omp parallel for schedule(static) if (worth_sharing(2 * count))
    for (int64_t p = 0; p < pieces; p++) sums[p] = square_of(x + p * PIECE, std::min(PIECE, count - p * PIECE));
    for (const float s : sums) total += s;
  }
  *out(params, num_gradients) = static_cast<float>(total);
  return 0;
}

// n gradients, then n buffers -> a number nobody reads. Adds each gradient to its buffer.
KERNEL(add_to_buffers) {
  const int num_buffers = (nparam - 1) / 2;
  *out(params, nparam - 1) = 0.0f;
  for (int n = 0; n < num_buffers; n++) {
    const float *gradient = in(params, n);
    float *buffer = out(params, num_buffers + n);
    const int64_t count = count_of(shapes[n], ndims[n]);
#pragma omp parallel for schedule(static) if (worth_sharing(4 * count))
    for (int64_t i = 0; i < count; i++) buffer[i] += gradient[i];
  }
  return 0;
}

// any input, then buffers -> a number nobody reads. Sets the buffers to 0.
KERNEL(clear_buffers) {
  *out(params, nparam - 1) = 0.0f;
  for (int n = 1; n < nparam - 1; n++) memset(params[n], 0, sizeof(float) * count_of(shapes[n], ndims[n]));
  return 0;
}

// factors_7 = (take, scale, rate, 1 - beta1, 1 - beta2, eps, keep), decayed_n, then n gradients, n parameters p, n first
// moments m and n second moments v -> a number nobody reads.
//   g = scale gradient, m += (1 - beta1) (g - m), v += (1 - beta2) (g^2 - v), p = keep p - rate m / (sqrt(v) + eps)
// with 1 for `keep` where decayed is 0. Writes p, m and v, or nothing where `take` is 0.
KERNEL(adamw) {
  const float *f = in(params, 0);
  const int32_t *decayed = ints(params, 1);
  const int64_t num_parameters = shapes[1][0];
  *out(params, nparam - 1) = 0.0f;
  if (f[0] == 0.0f) return 0;
  const float scale = f[1], rate = f[2], new1 = f[3], new2 = f[4], eps = f[5];
  for (int64_t n = 0; n < num_parameters; n++) {
    const int64_t gradient_at = 2 + n, at = gradient_at + num_parameters;
    const float *gradient = in(params, gradient_at), keep = decayed[n] ? f[6] : 1.0f;
    float *p = out(params, at), *m = out(params, at + num_parameters), *v = out(params, at + 2 * num_parameters);
    const int64_t count = count_of(shapes[gradient_at], ndims[gradient_at]);
#pragma omp parallel for schedule(static) if (worth_sharing(16 * count))
    for (int64_t first = 0; first < count; first += PIECE)
      for (int64_t i = first; i < std::min(first + PIECE, count); i++) {
        const float g = gradient[i] * scale;
        m[i] += new1 * (g - m[i]);
        v[i] += new2 * (g * g - v[i]);
        p[i] = keep * p[i] - rate * m[i] / (std::sqrt(v[i]) + eps);
      }
  }
  return 0;
}
