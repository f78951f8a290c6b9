// CPU kernels of the decoder: each is what several framework operators do, in one pass over memory.
// Work is cut into pieces that do not depend on the number of threads, so results do not either.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernel.h"

// ---- RMSNorm: y = x / sqrt(mean(x^2) + eps) * w -------------------------------------------------------------------

static inline float inverse_rms(const float *x, int64_t D, float eps) {
  vfloat acc{};
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
#pragma omp parallel for schedule(static) if (worth_sharing(4 * N * D))
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
#pragma omp parallel for schedule(static) if (worth_sharing(12 * N * D))
  for (int64_t piece = 0; piece < PIECES; piece++) {
    float *pw = partial.data() + piece * D;
    for (int64_t n = N * piece / PIECES; n < N * (piece + 1) / PIECES; n++) {
      const float *a = x + n * D, *g = dy + n * D;
      float r = inverse_rms(a, D, eps);
      vfloat acc{};
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
#pragma omp parallel for schedule(static) if (worth_sharing(32 * N * F))
  for (int64_t n = 0; n < N; n++) {
    const float *g = x + n * 2 * F, *u = g + F;
    float *h = y + n * F;
    int64_t i = 0;
    for (; i + LANES <= F; i += LANES) store(h + i, load(g + i) / (1.0f + vexp(-load(g + i))) * load(u + i));
    if (i < F) {
      vfloat gate = load_part(g + i, F - i, 0);
      store_part(h + i, gate / (1.0f + vexp(-gate)) * load_part(u + i, F - i, 0), F - i);
    }
  }
  return 0;
}

static inline void swiglu_grad_lanes(vfloat g, vfloat u, vfloat dh, vfloat *dg, vfloat *du) {
  vfloat s = 1.0f / (1.0f + vexp(-g));
  *dg = dh * u * s * (1.0f + g * (1.0f - s));
  *du = dh * g * s;
}

// gate_up_N(2F), dh_NF -> dgate_up_N(2F)
KERNEL(swiglu_grad) {
  const float *x = in(params, 0), *dh = in(params, 1);
  float *dx = out(params, 2);
  int64_t N = shapes[0][0], F = shapes[0][1] / 2;
#pragma omp parallel for schedule(static) if (worth_sharing(48 * N * F))
  for (int64_t n = 0; n < N; n++) {
    const float *g = x + n * 2 * F, *u = g + F, *d = dh + n * F;
    float *dg = dx + n * 2 * F, *du = dg + F;
    vfloat a, b;
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
#pragma omp parallel for schedule(static) if (worth_sharing(64 * N * V))
  for (int64_t n = 0; n < N; n++) {
    const float *z = logits + n * V;
    int64_t whole = V / LANES * LANES, rest = V - whole;
    vfloat top = splat(LOWEST);
    for (int64_t i = 0; i < whole; i += LANES) top = larger(load(z + i), top);
    if (rest) top = larger(load_part(z + whole, rest, LOWEST), top);
    float m = largest(top);
    vfloat total{}, weighted{};
    for (int64_t i = 0; i < whole; i += LANES) {
      vfloat d = (load(z + i) - m) * t, e = vexp(d);
      total += e;
      weighted += e * d;
    }
    if (rest) {
      vfloat d = (load_part(z + whole, rest, LOWEST) - m) * t, e = vexp(d);
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
#pragma omp parallel for schedule(static) if (worth_sharing(32 * N * V))
  for (int64_t n = 0; n < N; n++) {
    const float *z = logits + n * V;
    float *d = dlogits + n * V, both = (dnll[n] + dlse[n]) * t, de = dentropy[n] * t, h = entropy[n], l = lse[n];
    int64_t i = 0;
    if (both == 0 && de == 0) {  // a position outside the mask
      memset(d, 0, sizeof(float) * V);
    } else {
      for (; i + LANES <= V; i += LANES) {
        vfloat logp = load(z + i) * t - l;
        store(d + i, vexp(logp) * (both - de * (logp + h)));
      }
      if (i < V) {
        vfloat logp = load_part(z + i, V - i, 0) * t - l;
        store_part(d + i, vexp(logp) * (both - de * (logp + h)), V - i);
      }
    }
    int32_t label = labels[n] >= 0 && labels[n] < V ? labels[n] : 0;
    d[label] -= dnll[n] * t;
  }
  return 0;
}

// ---- dropout whose noise is a hash of place and seed ----------------------------------------------------------------------

namespace {

// The finaliser of MurmurHash3.
inline uint32_t mixed(uint32_t bits) {
  bits ^= bits >> 16;
  bits *= 0x85EBCA6Bu;
  bits ^= bits >> 13;
  bits *= 0xC2B2AE35u;
  return bits ^ (bits >> 16);
}

}  // namespace

// x, seed_1, threshold_1 (int32), scale_1 -> y: 0 where the low 31 bits of the hash are below the threshold, x scale
// elsewhere; x itself when the seed is 0. Linear in x, so it is its own gradient.
KERNEL(seeded_dropout) {
  const float *x = in(params, 0), scale = *in(params, 3);
  const uint32_t seed = static_cast<uint32_t>(*ints(params, 1)), threshold = static_cast<uint32_t>(*ints(params, 2));
  float *y = out(params, 4);
  const int64_t count = shapes[0][0] * shapes[0][1];
  if (seed == 0) {
    memcpy(y, x, sizeof(float) * count);
    return 0;
  }
  const uint32_t own = mixed(seed);
#pragma omp parallel for schedule(static) if (worth_sharing(16 * count))
  for (int64_t i = 0; i < count; i++)
    y[i] = (mixed(mixed(static_cast<uint32_t>(i)) ^ own) & 0x7FFFFFFFu) >= threshold ? x[i] * scale : 0.0f;
  return 0;
}
