// Portable 16-lane single-precision vectors (GCC/Clang vector extensions) and the small matrix product built on them.
// Compiled without -ffast-math on purpose: a NaN must come out as a NaN, since a step with one is skipped.
#pragma once
#include <cstdint>
#include <cstring>

typedef float v16 __attribute__((vector_size(64)));
typedef int32_t i16 __attribute__((vector_size(64)));
typedef float v16u __attribute__((vector_size(64), aligned(4), may_alias));

constexpr int LANES = 16;
#if defined(__AVX512F__)
constexpr int MR = 6, NV = 4;  // 24 accumulators of 32 registers
#else
constexpr int MR = 4, NV = 1;  // one v16 is two or four hardware registers
#endif

static inline v16 load(const float *p) { return *reinterpret_cast<const v16u *>(p); }
static inline void store(float *p, v16 x) { *reinterpret_cast<v16u *>(p) = x; }
// Sixteen equal lanes. Spelt out because `v16{} + x` compiles to an addition and a shuffle, which take the issue slots
// of multiply-adds; this is one broadcast from memory.
static inline v16 splat(float x) { return v16{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }

// The first `count` lanes of p; the others are `fill` and never read.
static inline v16 load_part(const float *p, int64_t count, float fill) {
  float lanes[LANES];
  for (int i = 0; i < LANES; i++) lanes[i] = i < count ? p[i] : fill;
  return load(lanes);
}
static inline void store_part(float *p, v16 x, int64_t count) { memcpy(p, &x, sizeof(float) * count); }

static inline float sum(v16 x) {
  float total = 0;
  for (int width = LANES / 2; width; width /= 2)
    for (int i = 0; i < width; i++) x[i] += x[i + width];
  total = x[0];
  return total;
}
static inline v16 larger(v16 a, v16 b) { return a > b ? a : b; }
static inline float largest(v16 x) {
  for (int width = LANES / 2; width; width /= 2)
    for (int i = 0; i < width; i++) x[i] = x[i] > x[i + width] ? x[i] : x[i + width];
  return x[0];
}

// exp(x) = 2^n exp(r), |r| <= ln(2)/2, by a degree-6 polynomial: relative error below 2e-7. NaN stays NaN.
static inline v16 vexp(v16 x) {
  x = x < -87.0f ? splat(-87.0f) : x;
  x = x > 88.0f ? splat(88.0f) : x;
  v16 n = x * 1.44269504088896341f;
  n = (n + 12582912.0f) - 12582912.0f;  // to the nearest integer
  v16 r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  v16 p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  i16 bits = (__builtin_convertvector(n, i16) + 127) << 23;
  v16 scale;
  memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

template <int ROWS, int VECS>
static inline void tile(int64_t K, const float *A, int64_t rs, int64_t cs, const float *B, int64_t ldb, float *C,
                        int64_t ldc, bool accumulate) {
  v16 acc[ROWS][VECS] = {};
  for (int64_t k = 0; k < K; k++) {
    v16 b[VECS];
#pragma GCC unroll 4
    for (int v = 0; v < VECS; v++) b[v] = load(B + k * ldb + v * LANES);
#pragma GCC unroll 24
    for (int r = 0; r < ROWS; r++) {
      v16 a = splat(A[r * rs + k * cs]);
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

template <int VECS>
static inline void rows_of(int64_t M, int64_t K, const float *A, int64_t rs, int64_t cs, const float *B, int64_t ldb,
                           float *C, int64_t ldc, bool accumulate) {
  int64_t m = 0;
  for (; m + MR <= M; m += MR) tile<MR, VECS>(K, A + m * rs, rs, cs, B, ldb, C + m * ldc, ldc, accumulate);
  for (; m < M; m++) tile<1, VECS>(K, A + m * rs, rs, cs, B, ldb, C + m * ldc, ldc, accumulate);
}

// C(M,N) (+)= A(M,K) B(K,N); A element (m,k) is at m*rs + k*cs, so that A may be read transposed; N is a multiple of 16.
static inline void gemm(int64_t M, int64_t N, int64_t K, const float *A, int64_t rs, int64_t cs, const float *B,
                        int64_t ldb, float *C, int64_t ldc, bool accumulate) {
  int64_t n = 0;
  for (; n + NV * LANES <= N; n += NV * LANES) rows_of<NV>(M, K, A, rs, cs, B + n, ldb, C + n, ldc, accumulate);
  for (; n < N; n += LANES) rows_of<1>(M, K, A, rs, cs, B + n, ldb, C + n, ldc, accumulate);
}
