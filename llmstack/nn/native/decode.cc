// CPU kernels of the decoding loop: attention over cached keys and values, and the choice of a token.
// Work is cut into pieces that do not depend on the number of threads, so results do not either.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernel.h"

// ---- attention of one new token a row over cached keys and values ----------------------------------------------------------

namespace {

struct CacheSizes {
  int64_t B, K, T, Ep, H, G, E, row;
};

// keys_BKTEp, whose rows are padded with zeros to whole vectors; heads_2 = (H, K); qkv_N((H+2K)E)
CacheSizes cache_sizes(int64_t **shapes, int qkv, int keys, const int32_t *heads) {
  CacheSizes s;
  s.B = shapes[keys][0];
  s.K = shapes[keys][1];
  s.T = shapes[keys][2];
  s.Ep = shapes[keys][3];
  s.H = heads[0];
  s.G = s.H / s.K;
  s.row = shapes[qkv][1];
  s.E = s.row / (s.H + 2 * s.K);
  return s;
}

// One token's key, turned by its position, and its value go to a slot of head k.
inline void remember(const CacheSizes &s, const float *qkv, const float *cos, const float *sin, int64_t k, float *key,
                     float *value) {
  rotate(qkv + (s.H + k) * s.E, cos, sin, s.E, 1.0f, 1.0f, key);
  memcpy(value, qkv + (s.H + s.K + k) * s.E, sizeof(float) * s.E);
}

inline float dot(const float *a, const float *b, int64_t n) {
  vfloat acc{};
  for (int64_t i = 0; i < n; i += LANES) acc += load(a + i) * load(b + i);
  return sum(acc);
}

// p_n = softmax(scores_n); scores has room for a whole vector more.
inline void softmax(float *scores, int64_t n) {
  vfloat top = splat(LOWEST), total{};
  for (int i = 0; i < LANES; i++) scores[n + i] = LOWEST;
  for (int64_t i = 0; i < n; i += LANES) top = larger(load(scores + i), top);
  const float m = largest(top);
  for (int64_t i = 0; i < n; i += LANES) {
    const vfloat e = vexp(load(scores + i) - m);
    store(scores + i, e);
    total += e;
  }
  const float inverse = 1.0f / sum(total);
  for (int64_t i = 0; i < n; i += LANES) store(scores + i, load(scores + i) * inverse);
}

// result_Ep = sum_t p_t rows_t
inline void weighted_sum(const float *p, int64_t n, const float *rows, int64_t Ep, float *result) {
  for (int64_t e = 0; e < Ep; e += LANES) {
    vfloat even{}, odd{};
    int64_t t = 0;
    for (; t + 2 <= n; t += 2) {
      even += splat(p[t]) * load(rows + t * Ep + e);
      odd += splat(p[t + 1]) * load(rows + (t + 1) * Ep + e);
    }
    if (t < n) even += splat(p[t]) * load(rows + t * Ep + e);
    store(result + e, even + odd);
  }
}

}  // namespace

// qkv_N((H+2K)E), cos_N(E/2), sin_N(E/2), heads_2, keys_BKTEp, values_BKTEp -> a number nobody reads.
// Writes slots 0 .. N/B - 1 of the cache.
KERNEL(fill_cache) {
  const float *qkv = in(params, 0), *cos = in(params, 1), *sin = in(params, 2);
  const CacheSizes s = cache_sizes(shapes, 0, 4, ints(params, 3));
  float *keys = out(params, 4), *values = out(params, 5);
  const int64_t P = shapes[0][0] / s.B;
#pragma omp parallel for schedule(static) if (worth_sharing(4 * s.B * s.K * P * s.Ep))
  for (int64_t task = 0; task < s.B * s.K; task++)
    for (int64_t t = 0; t < P; t++) {
      const int64_t n = task / s.K * P + t, at = (task * s.T + t) * s.Ep;
      remember(s, qkv + n * s.row, cos + n * s.E / 2, sin + n * s.E / 2, task % s.K, keys + at, values + at);
    }
  *out(params, 6) = 0.0f;
  return 0;
}

// qkv_B((H+2K)E), cos_B(E/2), sin_B(E/2), first_B, slot_1, heads_2, keys_BKTEp, values_BKTEp -> out_B(HE).
// Writes the token's key and value to the slot and attends to the slots first .. slot of its row.
KERNEL(cached_attention) {
  const float *qkv = in(params, 0), *cos = in(params, 1), *sin = in(params, 2);
  const int32_t *first = ints(params, 3);
  const int64_t slot = *ints(params, 4);
  const CacheSizes s = cache_sizes(shapes, 0, 6, ints(params, 5));
  float *keys = out(params, 6), *values = out(params, 7), *result = out(params, 8);
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.E));
#pragma omp parallel if (worth_sharing(4 * s.B * s.H * (slot + 1) * s.Ep))
  {
    std::vector<float> q(s.Ep), p(s.T + LANES), mixed(s.Ep);
#pragma omp for schedule(static)
    for (int64_t task = 0; task < s.B * s.K; task++) {
      const int64_t b = task / s.K, k = task % s.K, n = slot + 1 - first[b];
      const float *token = qkv + b * s.row, *c = cos + b * s.E / 2, *d = sin + b * s.E / 2;
      float *key = keys + (task * s.T + first[b]) * s.Ep, *value = values + (task * s.T + first[b]) * s.Ep;
      remember(s, token, c, d, k, key + (n - 1) * s.Ep, value + (n - 1) * s.Ep);
      for (int64_t h = k * s.G; h < (k + 1) * s.G; h++) {
        rotate(token + h * s.E, c, d, s.E, scale, 1.0f, q.data());
        for (int64_t t = 0; t < n; t++) p[t] = dot(q.data(), key + t * s.Ep, s.Ep);
        softmax(p.data(), n);
        weighted_sum(p.data(), n, value, s.Ep, mixed.data());
        memcpy(result + (b * s.H + h) * s.E, mixed.data(), sizeof(float) * s.E);
      }
    }
  }
  return 0;
}

// ---- one token from each row of logits -------------------------------------------------------------------------------------

namespace {

constexpr int64_t PART = 256;  // logits whose weights are summed before they are added to the running total

inline float largest_of(const float *x, int64_t n) {
  vfloat top = splat(LOWEST);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) top = larger(load(x + i), top);
  return largest(i < n ? larger(load_part(x + i, n - i, LOWEST), top) : top);
}

// weights_n = exp((logits_n - top) inverse_t); returns their sum.
inline float weights_of(const float *logits, int64_t n, float top, float inverse_t, float *weights) {
  vfloat total{};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const vfloat e = vexp((load(logits + i) - top) * inverse_t);
    store(weights + i, e);
    total += e;
  }
  if (i < n) {
    const vfloat e = vexp((load_part(logits + i, n - i, LOWEST) - top) * inverse_t);
    store_part(weights + i, e, n - i);
    for (int64_t j = i; j < n; j++) total[j - i] += weights[j];
  }
  return sum(total);
}

}  // namespace

// logits_BV, temperature_1, uniform_B -> token_B, logp_B: the first token whose cumulative weight exceeds uniform times
// the total (inverse of the distribution function), and its log-probability. A row of NaN gives token 0, logp NaN.
KERNEL(sample_token) {
  const float *logits = in(params, 0), inverse_t = 1.0f / *in(params, 1), *uniform = in(params, 2);
  int32_t *token = static_cast<int32_t *>(params[3]);
  float *logp = out(params, 4);
  const int64_t B = shapes[0][0], V = shapes[0][1], chunks = (V + PART - 1) / PART;
#pragma omp parallel if (worth_sharing(32 * B * V))
  {
    std::vector<float> weights(V);
    std::vector<double> ends(chunks);
#pragma omp for schedule(static)
    for (int64_t b = 0; b < B; b++) {
      const float *z = logits + b * V, top = largest_of(z, V);
      double total = 0;
      for (int64_t c = 0; c < chunks; c++) {
        const int64_t at = c * PART;
        ends[c] = total += weights_of(z + at, std::min(PART, V - at), top, inverse_t, &weights[at]);
      }
      const double target = uniform[b] * total;
      const int64_t chunk = std::min<int64_t>(std::upper_bound(ends.begin(), ends.end(), target) - ends.begin(), chunks - 1);
      double below = chunk ? ends[chunk - 1] : 0.0;
      int64_t pick = 0;
      for (int64_t i = chunk * PART; i < std::min(V, (chunk + 1) * PART) && below <= target; i++) {
        below += weights[i];
        if (weights[i] > 0) pick = i;
      }
      token[b] = static_cast<int32_t>(pick);
      logp[b] = static_cast<float>((z[pick] - top) * inverse_t - std::log(total));
    }
  }
  return 0;
}
