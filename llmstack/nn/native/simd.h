// Portable single-precision vectors of the machine's own width (GCC/Clang vector extensions).
// Compiled without -ffast-math on purpose: a NaN must come out as a NaN, since a step with one is skipped.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

typedef float vfloat __attribute__((vector_size(4 * LANES)));
typedef int32_t vint __attribute__((vector_size(4 * LANES)));
typedef float vfloat_any __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline vfloat load(const float *p) { return *reinterpret_cast<const vfloat_any *>(p); }
static inline void store(float *p, vfloat x) { *reinterpret_cast<vfloat_any *>(p) = x; }
// Equal lanes. `x - 0` is x whatever its sign and compiles to one broadcast from memory; `x + 0` does not, and its
// addition and shuffle would take the issue slots of multiply-adds.
static inline vfloat splat(float x) { return x - vfloat{}; }

// The first `count` lanes of p; the others are `fill` and never read.
static inline vfloat load_part(const float *p, int64_t count, float fill) {
  float lanes[LANES];
  for (int i = 0; i < LANES; i++) lanes[i] = i < count ? p[i] : fill;
  return load(lanes);
}
static inline void store_part(float *p, vfloat x, int64_t count) { memcpy(p, &x, sizeof(float) * count); }

static inline float sum(vfloat x) {
  float total = 0;
  for (int width = LANES / 2; width; width /= 2)
    for (int i = 0; i < width; i++) x[i] += x[i + width];
  total = x[0];
  return total;
}
static inline vfloat larger(vfloat a, vfloat b) { return a > b ? a : b; }
static inline float largest(vfloat x) {
  for (int width = LANES / 2; width; width /= 2)
    for (int i = 0; i < width; i++) x[i] = x[i] > x[i + width] ? x[i] : x[i + width];
  return x[0];
}

// exp(x) = 2^n exp(r), |r| <= ln(2)/2, by a degree-6 polynomial: relative error below 2e-7. NaN stays NaN.
static inline vfloat vexp(vfloat x) {
  x = x < -87.0f ? splat(-87.0f) : x;
  x = x > 88.0f ? splat(88.0f) : x;
  vfloat n = x * 1.44269504088896341f;
  n = (n + 12582912.0f) - 12582912.0f;  // to the nearest integer
  vfloat r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  vfloat p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  vint bits = (__builtin_convertvector(n, vint) + 127) << 23;
  vfloat scale;
  memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

template <int ROWS, int VECS>
static inline void tile(int64_t K, const float *A, int64_t rs, int64_t cs, const float *B, int64_t ldb, float *C,
                        int64_t ldc, bool accumulate) {
  vfloat acc[ROWS][VECS] = {};
  for (int64_t k = 0; k < K; k++) {
    vfloat b[VECS];
#pragma GCC unroll 4
    for (int v = 0; v < VECS; v++) b[v] = load(B + k * ldb + v * LANES);
#pragma GCC unroll 24
    for (int r = 0; r < ROWS; r++) {
      vfloat a = splat(A[r * rs + k * cs]);
#pragma GCC unroll 4
      for (int v = 0; v < VECS; v++) acc[r][v] += a * b[v];
    }
  }
#pragma GCC unroll 24
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
    for (int v = 0; v < VECS; v++) {
      float *c = C + r * ldc + v * LANES;
      store(c, accumulate ? load(c) + acc[r][v] : acc[r][v]);
    }
}
