// CPU kernels of the decoder: each is what several framework operators do, in one pass over memory.
// Work is cut into pieces that do not depend on the number of threads, so results do not either.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernel.h"

// ---- RMSNorm: y = x / sqrt(mean(x^2) + eps) * w -------------------------------------------------------------------

static inline float inverse_rms(const float *x, int64_t D, float eps) {
  v16 acc{};
  int64_t i = 0;
  for (; i + LANES <= D; i += LANES) acc += load(x + i) * load(x + i);
  float total = sum(acc);
  for (; i < D; i++) total += x[i] * x[i];
  return 1.0f / std::sqrt(total / D + eps);
}

// x_ND, w_D, eps_1 -> y_ND
KERNEL(rms_norm) {
  const float *x = in(params, 0), *w = in(params, 1), eps = *in(params, 2);
  float *y = out(params, 3);
  int64_t N = shapes[0][0], D = shapes[0][1];
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < N; n++) {
    const float *a = x + n * D;
    float r = inverse_rms(a, D, eps);
    for (int64_t i = 0; i < D; i++) y[n * D + i] = a[i] * r * w[i];
  }
  return 0;
}

// x_ND, w_D, eps_1, dy_ND -> dx_ND, dw_D
KERNEL(rms_norm_grad) {
  const float *x = in(params, 0), *w = in(params, 1), eps = *in(params, 2), *dy = in(params, 3);
  float *dx = out(params, 4), *dw = out(params, 5);
  int64_t N = shapes[0][0], D = shapes[0][1];
  constexpr int64_t PIECES = 32;
  std::vector<float> partial(PIECES * D, 0.0f);
#pragma omp parallel for schedule(static)
  for (int64_t piece = 0; piece < PIECES; piece++) {
    float *pw = partial.data() + piece * D;
    for (int64_t n = N * piece / PIECES; n < N * (piece + 1) / PIECES; n++) {
      const float *a = x + n * D, *g = dy + n * D;
      float r = inverse_rms(a, D, eps);
      v16 acc{};
      int64_t i = 0;
      for (; i + LANES <= D; i += LANES) acc += load(g + i) * load(w + i) * load(a + i);
      float dot = sum(acc);
      for (; i < D; i++) dot += g[i] * w[i] * a[i];
      float k = dot * r * r * r / D;
      for (i = 0; i < D; i++) {
        dx[n * D + i] = g[i] * w[i] * r - a[i] * k;
        pw[i] += g[i] * a[i] * r;
      }
    }
  }
  for (int64_t i = 0; i < D; i++) {
    float total = 0;
    for (int64_t piece = 0; piece < PIECES; piece++) total += partial[piece * D + i];
    dw[i] = total;
  }
  return 0;
}

// ---- SwiGLU: h = silu(gate) * up, gate and up the two halves of a row ------------------------------------------------

// gate_up_N(2F) -> h_NF
KERNEL(swiglu) {
  const float *x = in(params, 0);
  float *y = out(params, 1);
  int64_t N = shapes[0][0], F = shapes[0][1] / 2;
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < N; n++) {
    const float *g = x + n * 2 * F, *u = g + F;
    float *h = y + n * F;
    int64_t i = 0;
    for (; i + LANES <= F; i += LANES) store(h + i, load(g + i) / (1.0f + vexp(-load(g + i))) * load(u + i));
    if (i < F) {
      v16 gate = load_part(g + i, F - i, 0);
      store_part(h + i, gate / (1.0f + vexp(-gate)) * load_part(u + i, F - i, 0), F - i);
    }
  }
  return 0;
}

static inline void swiglu_grad_lanes(v16 g, v16 u, v16 dh, v16 *dg, v16 *du) {
  v16 s = 1.0f / (1.0f + vexp(-g));
  *dg = dh * u * s * (1.0f + g * (1.0f - s));
  *du = dh * g * s;
}

// gate_up_N(2F), dh_NF -> dgate_up_N(2F)
KERNEL(swiglu_grad) {
  const float *x = in(params, 0), *dh = in(params, 1);
  float *dx = out(params, 2);
  int64_t N = shapes[0][0], F = shapes[0][1] / 2;
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < N; n++) {
    const float *g = x + n * 2 * F, *u = g + F, *d = dh + n * F;
    float *dg = dx + n * 2 * F, *du = dg + F;
    v16 a, b;
    int64_t i = 0;
    for (; i + LANES <= F; i += LANES) {
      swiglu_grad_lanes(load(g + i), load(u + i), load(d + i), &a, &b);
      store(dg + i, a);
      store(du + i, b);
    }
    if (i < F) {
      swiglu_grad_lanes(load_part(g + i, F - i, 0), load_part(u + i, F - i, 0), load_part(d + i, F - i, 0), &a, &b);
      store_part(dg + i, a, F - i);
      store_part(du + i, b, F - i);
    }
  }
  return 0;
}

// ---- log-softmax at a temperature: z = logits / t ---------------------------------------------------------------------

// logits_NV, labels_N, temperature_1 -> nll_N = lse - z[label], lse_N = log sum exp z, entropy_N = lse - sum softmax(z) z
KERNEL(token_nll) {
  const float *logits = in(params, 0), t = 1.0f / *in(params, 2);
  const int32_t *labels = ints(params, 1);
  float *nll = out(params, 3), *lse = out(params, 4), *entropy = out(params, 5);
  int64_t N = shapes[0][0], V = shapes[0][1];
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < N; n++) {
    const float *z = logits + n * V;
    int64_t whole = V / LANES * LANES, rest = V - whole;
    v16 top = splat(LOWEST);
    for (int64_t i = 0; i < whole; i += LANES) top = larger(load(z + i), top);
    if (rest) top = larger(load_part(z + whole, rest, LOWEST), top);
    float m = largest(top);
    v16 total{}, weighted{};
    for (int64_t i = 0; i < whole; i += LANES) {
      v16 d = (load(z + i) - m) * t, e = vexp(d);
      total += e;
      weighted += e * d;
    }
    if (rest) {
      v16 d = (load_part(z + whole, rest, LOWEST) - m) * t, e = vexp(d);
      for (int64_t i = rest; i < LANES; i++) e[i] = d[i] = 0;
      total += e;
      weighted += e * d;
    }
    float s = sum(total), log_s = std::log(s);
    int32_t label = labels[n] >= 0 && labels[n] < V ? labels[n] : 0;
    nll[n] = log_s - (z[label] - m) * t;
    lse[n] = log_s + m * t;
    entropy[n] = log_s - sum(weighted) / s;
  }
  return 0;
}

// logits_NV, labels_N, temperature_1, lse_N, entropy_N, dnll_N, dlse_N, dentropy_N -> dlogits_NV
// d nll/dz = p - onehot, d lse/dz = p, d entropy/dz = -p (log p + entropy), and dz/dlogits = 1/t
KERNEL(token_nll_grad) {
  const float *logits = in(params, 0), t = 1.0f / *in(params, 2), *lse = in(params, 3), *entropy = in(params, 4);
  const float *dnll = in(params, 5), *dlse = in(params, 6), *dentropy = in(params, 7);
  const int32_t *labels = ints(params, 1);
  float *dlogits = out(params, 8);
  int64_t N = shapes[0][0], V = shapes[0][1];
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < N; n++) {
    const float *z = logits + n * V;
    float *d = dlogits + n * V, both = (dnll[n] + dlse[n]) * t, de = dentropy[n] * t, h = entropy[n], l = lse[n];
    int64_t i = 0;
    if (both == 0 && de == 0) {  // a position outside the mask
      memset(d, 0, sizeof(float) * V);
    } else {
      for (; i + LANES <= V; i += LANES) {
        v16 logp = load(z + i) * t - l;
        store(d + i, vexp(logp) * (both - de * (logp + h)));
      }
      if (i < V) {
        v16 logp = load_part(z + i, V - i, 0) * t - l;
        store_part(d + i, vexp(logp) * (both - de * (logp + h)), V - i);
      }
    }
    int32_t label = labels[n] >= 0 && labels[n] < V ? labels[n] : 0;
    d[label] -= dnll[n] * t;
  }
  return 0;
}

// ---- causal attention from the fused projection -------------------------------------------------------------------------

namespace {

constexpr int64_t QUERIES = 48;  // query rows handled together; a multiple of MR

struct Sizes {
  int64_t B, T, H, K, E, G, row, Tp, Ep;
};

// qkv_N((H+2K)E), segments_BT, heads_2 = (H, K)
Sizes sizes_of(int64_t **shapes, int qkv, int segments, const int32_t *heads) {
  Sizes s;
  s.B = shapes[segments][0];
  s.T = shapes[segments][1];
  s.H = heads[0];
  s.K = heads[1];
  s.G = s.H / s.K;
  s.row = shapes[qkv][1];
  s.E = s.row / (s.H + 2 * s.K);
  s.Tp = round_up(s.T);
  s.Ep = round_up(s.E);
  return s;
}

// One key/value head of one row of the batch, padded to whole vectors with zeros.
struct KeyValue {
  std::vector<float> k, kt, v, vt;
  KeyValue(const Sizes &s, bool values_transposed)
      : k(s.Tp * s.Ep), kt(s.Ep * s.Tp), v(s.Tp * s.Ep), vt(values_transposed ? s.Ep * s.Tp : 0) {}
  void read(const Sizes &s, const float *qkv, const float *cos, const float *sin, int64_t head) {
    for (int64_t t = 0; t < s.T; t++) {
      const float *row = qkv + t * s.row;
      float *kr = k.data() + t * s.Ep, *vr = v.data() + t * s.Ep;
      rotate(row + (s.H + head) * s.E, cos + t * s.E / 2, sin + t * s.E / 2, s.E, 1.0f, 1.0f, kr);
      memcpy(vr, row + (s.H + s.K + head) * s.E, sizeof(float) * s.E);
      for (int64_t e = 0; e < s.E; e++) kt[e * s.Tp + t] = kr[e];
      if (!vt.empty())
        for (int64_t e = 0; e < s.E; e++) vt[e * s.Tp + t] = vr[e];
    }
  }
};

// Which keys a query sees: those of its own segment, up to itself.
inline i16 allowed(const int32_t *segments, int64_t first_key, int64_t query, int64_t T) {
  i16 keys, segment;
  for (int i = 0; i < LANES; i++) {
    keys[i] = static_cast<int32_t>(first_key + i);
    segment[i] = first_key + i < T ? segments[first_key + i] : -1;
  }
  return (keys <= static_cast<int32_t>(query)) & (segment == segments[query]);
}

// scores -> probabilities of one query over `keys` (padded) keys; returns log sum exp.
inline float softmax_row(float *scores, const int32_t *segments, int64_t keys, int64_t query, int64_t T) {
  v16 top = splat(LOWEST);
  for (int64_t j = 0; j < keys; j += LANES) {
    v16 x = allowed(segments, j, query, T) ? load(scores + j) : splat(LOWEST);
    store(scores + j, x);
    top = larger(x, top);
  }
  float m = largest(top);
  v16 total{};
  for (int64_t j = 0; j < keys; j += LANES) {
    v16 x = load(scores + j), e = x == LOWEST ? splat(0.0f) : vexp(x - m);
    store(scores + j, e);
    total += e;
  }
  float s = sum(total), inverse = 1.0f / s;
  for (int64_t j = 0; j < keys; j += LANES) store(scores + j, load(scores + j) * inverse);
  return m + std::log(s);
}

// The same probabilities again from their saved log sum exp.
inline void probability_row(float *scores, const int32_t *segments, int64_t keys, int64_t query, int64_t T, float lse) {
  for (int64_t j = 0; j < keys; j += LANES)
    store(scores + j, allowed(segments, j, query, T) ? vexp(load(scores + j) - lse) : splat(0.0f));
}

}  // namespace

// qkv_N((H+2K)E), cos_N(E/2), sin_N(E/2), segments_BT, heads_2 -> out_N(HE), lse_NH
KERNEL(attention) {
  const float *qkv = in(params, 0), *cos = in(params, 1), *sin = in(params, 2);
  const int32_t *segments = ints(params, 3);
  float *result = out(params, 5), *lse = out(params, 6);
  const Sizes s = sizes_of(shapes, 0, 3, ints(params, 4));
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.E));
#pragma omp parallel
  {
    KeyValue kv(s, false);
    std::vector<float> q(QUERIES * s.Ep), p(QUERIES * s.Tp), o(QUERIES * s.Ep);
#pragma omp for schedule(static)
    for (int64_t task = 0; task < s.B * s.K; task++) {
      const int64_t b = task / s.K, head = task % s.K, base = b * s.T;
      const int32_t *seg = segments + base;
      kv.read(s, qkv + base * s.row, cos + base * s.E / 2, sin + base * s.E / 2, head);
      for (int64_t h = head * s.G; h < (head + 1) * s.G; h++)
        for (int64_t first = 0; first < s.T; first += QUERIES) {
          const int64_t last = std::min(first + QUERIES, s.T), M = last - first, keys = round_up(last);
          for (int64_t i = 0; i < M; i++) {
            const int64_t n = base + first + i;
            rotate(qkv + n * s.row + h * s.E, cos + n * s.E / 2, sin + n * s.E / 2, s.E, scale, 1.0f, &q[i * s.Ep]);
          }
          gemm(M, keys, s.E, q.data(), s.Ep, 1, kv.kt.data(), s.Tp, p.data(), s.Tp, false);
          for (int64_t i = 0; i < M; i++)
            lse[(base + first + i) * s.H + h] = softmax_row(&p[i * s.Tp], seg, keys, first + i, s.T);
          gemm(M, s.Ep, keys, p.data(), s.Tp, 1, kv.v.data(), s.Ep, o.data(), s.Ep, false);
          for (int64_t i = 0; i < M; i++)
            memcpy(result + (base + first + i) * s.H * s.E + h * s.E, &o[i * s.Ep], sizeof(float) * s.E);
        }
    }
  }
  return 0;
}

// qkv, cos, sin, segments, heads, out_N(HE), lse_NH, dout_N(HE) -> dqkv_N((H+2K)E)
KERNEL(attention_grad) {
  const float *qkv = in(params, 0), *cos = in(params, 1), *sin = in(params, 2);
  const int32_t *segments = ints(params, 3);
  const float *result = in(params, 5), *lse = in(params, 6), *dresult = in(params, 7);
  float *dqkv = out(params, 8);
  const Sizes s = sizes_of(shapes, 0, 3, ints(params, 4));
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.E));
#pragma omp parallel
  {
    KeyValue kv(s, true);
    std::vector<float> q(QUERIES * s.Ep), g(QUERIES * s.Ep), p(QUERIES * s.Tp), dp(QUERIES * s.Tp), dq(QUERIES * s.Ep);
    std::vector<float> dk(s.Tp * s.Ep), dv(s.Tp * s.Ep);
#pragma omp for schedule(static)
    for (int64_t task = 0; task < s.B * s.K; task++) {
      const int64_t b = task / s.K, head = task % s.K, base = b * s.T;
      const int32_t *seg = segments + base;
      kv.read(s, qkv + base * s.row, cos + base * s.E / 2, sin + base * s.E / 2, head);
      std::fill(dk.begin(), dk.end(), 0.0f);
      std::fill(dv.begin(), dv.end(), 0.0f);
      for (int64_t h = head * s.G; h < (head + 1) * s.G; h++)
        for (int64_t first = 0; first < s.T; first += QUERIES) {
          const int64_t last = std::min(first + QUERIES, s.T), M = last - first, keys = round_up(last);
          for (int64_t i = 0; i < M; i++) {
            const int64_t n = base + first + i;
            rotate(qkv + n * s.row + h * s.E, cos + n * s.E / 2, sin + n * s.E / 2, s.E, scale, 1.0f, &q[i * s.Ep]);
            memcpy(&g[i * s.Ep], dresult + n * s.H * s.E + h * s.E, sizeof(float) * s.E);
          }
          gemm(M, keys, s.E, q.data(), s.Ep, 1, kv.kt.data(), s.Tp, p.data(), s.Tp, false);
          gemm(M, keys, s.E, g.data(), s.Ep, 1, kv.vt.data(), s.Tp, dp.data(), s.Tp, false);
          for (int64_t i = 0; i < M; i++) {
            const int64_t n = base + first + i;
            probability_row(&p[i * s.Tp], seg, keys, first + i, s.T, lse[n * s.H + h]);
            const float *o = result + n * s.H * s.E + h * s.E, *d = &g[i * s.Ep];
            float dot = 0;
            for (int64_t e = 0; e < s.E; e++) dot += o[e] * d[e];
            for (int64_t j = 0; j < keys; j += LANES) {
              float *x = &dp[i * s.Tp + j];
              store(x, load(&p[i * s.Tp + j]) * (load(x) - dot));
            }
          }
          gemm(keys, s.Ep, M, p.data(), 1, s.Tp, g.data(), s.Ep, dv.data(), s.Ep, true);
          gemm(keys, s.Ep, M, dp.data(), 1, s.Tp, q.data(), s.Ep, dk.data(), s.Ep, true);
          gemm(M, s.Ep, keys, dp.data(), s.Tp, 1, kv.k.data(), s.Ep, dq.data(), s.Ep, false);
          for (int64_t i = 0; i < M; i++) {
            const int64_t n = base + first + i;
            rotate(&dq[i * s.Ep], cos + n * s.E / 2, sin + n * s.E / 2, s.E, scale, -1.0f, dqkv + n * s.row + h * s.E);
          }
        }
      for (int64_t t = 0; t < s.T; t++) {
        const int64_t n = base + t;
        rotate(&dk[t * s.Ep], cos + n * s.E / 2, sin + n * s.E / 2, s.E, 1.0f, -1.0f,
               dqkv + n * s.row + (s.H + head) * s.E);
        memcpy(dqkv + n * s.row + (s.H + s.K + head) * s.E, &dv[t * s.Ep], sizeof(float) * s.E);
      }
    }
  }
  return 0;
}
