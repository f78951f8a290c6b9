// CPU kernels of an optimizer step: the norm of a gradient, and AdamW in one pass over a parameter.
// Work is cut into pieces that do not depend on the number of threads, so results do not either.
#include <algorithm>
#include <cmath>
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

// x -> sum of x^2
KERNEL(sum_of_squares) {
  const float *x = in(params, 0);
  const int64_t count = count_of(shapes[0], ndims[0]), pieces = (count + PIECE - 1) / PIECE;
  std::vector<float> sums(pieces);
#pragma omp parallel for schedule(static) if (worth_sharing(2 * count))
  for (int64_t p = 0; p < pieces; p++) sums[p] = square_of(x + p * PIECE, std::min(PIECE, count - p * PIECE));
  double total = 0;
  for (const float s : sums) total += s;
  *out(params, 1) = static_cast<float>(total);
  return 0;
}

// gradient, factors_7 = (take, scale, rate, 1 - beta1, 1 - beta2, eps, keep), p, m, v -> a number nobody reads.
//   g = scale gradient, m += (1 - beta1) (g - m), v += (1 - beta2) (g^2 - v), p = keep p - rate m / (sqrt(v) + eps)
// writes p, m and v, or nothing where `take` is 0.
KERNEL(adamw) {
  const float *gradient = in(params, 0), *f = in(params, 1);
  const float scale = f[1], rate = f[2], new1 = f[3], new2 = f[4], eps = f[5], keep = f[6];
  float *p = out(params, 2), *m = out(params, 3), *v = out(params, 4);
  *out(params, 5) = 0.0f;
  if (f[0] == 0.0f) return 0;
  const int64_t count = count_of(shapes[0], ndims[0]);
#pragma omp parallel for schedule(static) if (worth_sharing(16 * count))
  for (int64_t first = 0; first < count; first += PIECE)
    for (int64_t i = first; i < std::min(first + PIECE, count); i++) {
      const float g = gradient[i] * scale;
      m[i] += new1 * (g - m[i]);
      v[i] += new2 * (g * g - v[i]);
      p[i] = keep * p[i] - rate * m[i] / (std::sqrt(v[i]) + eps);
    }
  return 0;
}
