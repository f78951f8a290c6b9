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

// Whether about so many floating-point operations are worth waking the other threads, which takes some microseconds.
static inline bool worth_sharing(int64_t operations) { return operations > 1 << 18; }

constexpr float LOWEST = -3.0e38f;  // below every finite logit: exp of it minus a maximum is 0

static inline void copy_row(const float *from, int64_t count, float *to) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) store(to + i, load(from + i));
  for (; i < count; i++) to[i] = from[i];
}

// Turns the pairs (x[i], x[i+E/2]) of one head by the position's angle; direction -1 turns back.
static inline void rotate(const float *x, const float *cos, const float *sin, int64_t E, float scale, float direction,
                          float *y) {
  const int64_t half = E / 2;
  int64_t i = 0;
  for (; i + LANES <= half; i += LANES) {
    const vfloat c = load(cos + i) * scale, s = load(sin + i) * (scale * direction), a = load(x + i), b = load(x + half + i);
    store(y + i, a * c - b * s);
    store(y + half + i, b * c + a * s);
  }
  for (; i < half; i++) {
    const float c = cos[i] * scale, s = sin[i] * (scale * direction), a = x[i], b = x[i + half];
    y[i] = a * c - b * s;
    y[i + half] = b * c + a * s;
  }
}
