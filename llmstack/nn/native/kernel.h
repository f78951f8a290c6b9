// What the kernels share.
// Calling convention of MindSpore's ahead-of-time custom operators: inputs first, then outputs; 0 is success.
#pragma once
#include <cstdint>

#include "simd.h"

#define KERNEL(name)                                                                                           \
  extern "C" int name([[maybe_unused]] int nparam, [[maybe_unused]] void **params, [[maybe_unused]] int *ndims, \
                      [[maybe_unused]] int64_t **shapes, [[maybe_unused]] const char **dtypes,                 \
                      [[maybe_unused]] void *stream, [[maybe_unused]] void *extra)

static inline const float *in(void **params, int i) { return static_cast<const float *>(params[i]); }
static inline const int32_t *ints(void **params, int i) { return static_cast<const int32_t *>(params[i]); }
static inline float *out(void **params, int i) { return static_cast<float *>(params[i]); }
static inline int64_t round_up(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

constexpr float LOWEST = -3.0e38f;  // below every finite logit: exp of it minus a maximum is 0

// Turns the pairs (x[i], x[i+E/2]) of one head by the position's angle; direction -1 turns back.
static inline void rotate(const float *x, const float *cos, const float *sin, int64_t E, float scale, float direction,
                          float *y) {
  int64_t half = E / 2;
  for (int64_t i = 0; i < half; i++) {
    float c = cos[i] * scale, s = sin[i] * scale * direction, a = x[i], b = x[i + half];
    y[i] = a * c - b * s;
    y[i + half] = b * c + a * s;
  }
}
