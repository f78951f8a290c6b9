// Causal grouped-query attention straight from the fused projection: positions turned, segments kept apart, and no array
// of all scores. The backward pass makes the probabilities again from their log sum exp (Dao et al. 2022, algorithm 4).
// Work is cut into pieces that do not depend on the number of threads, so results do not either.
#include <cmath>
#include <vector>

#include "gemm.h"

namespace {

constexpr int64_t QUERIES = 32;  // query rows handled together: few, so that little above the diagonal is computed

struct Sizes {
  int64_t B, T, H, K, E, G, window, row, Tp, Ep;
  float scale;
};

// qkv_N((H+2K)E), segments_BT, heads_3 = (H, K, tokens a query sees)
Sizes sizes_of(int64_t **shapes, int qkv, int segments, const int32_t *heads) {
  Sizes s;
  s.B = shapes[segments][0];
  s.T = shapes[segments][1];
  s.H = heads[0];
  s.K = heads[1];
  s.G = s.H / s.K;
  s.window = heads[2];
  s.row = shapes[qkv][1];
  s.E = s.row / (s.H + 2 * s.K);
  s.Tp = round_up(s.T);
  s.Ep = round_up(s.E);
  s.scale = 1.0f / std::sqrt(static_cast<float>(s.E));
  return s;
}

// Places in one piece of memory, each on a cache line of its own.
class Layout {
 public:
  explicit Layout(float *memory) : next_(memory) {}
  float *take(int64_t count) {
    float *here = next_;
    next_ += round_up(count);
    return here;
  }

 private:
  float *next_;
};

// The tokens of one row of the batch: where its numbers are, and which keys a query sees.
struct Row {
  const Sizes &s;
  const float *qkv, *cos, *sin;
  const int32_t *segments;
  int64_t base;  // its first token among all N

  Row(const Sizes &sizes, const float *qkv, const float *cos, const float *sin, const int32_t *segments, int64_t b)
      : s(sizes), qkv(qkv + b * s.T * s.row), cos(cos + b * s.T * s.E / 2), sin(sin + b * s.T * s.E / 2),
        segments(segments + b * s.T), base(b * s.T) {}

  // Head `head` of the fused projection for tokens first .. last, turned by their positions.
  void turned(int64_t head, int64_t first, int64_t last, float scale, float *rows) const {
    for (int64_t t = first; t < last; t++)
      rotate(qkv + t * s.row + head * s.E, cos + t * s.E / 2, sin + t * s.E / 2, s.E, scale, 1.0f, rows + (t - first) * s.Ep);
  }
  // The gradient of that, turned back, into the same place of dqkv.
  void turn_back(const float *rows, int64_t head, int64_t first, int64_t last, float scale, float *dqkv) const {
    for (int64_t t = first; t < last; t++)
      rotate(rows + (t - first) * s.Ep, cos + t * s.E / 2, sin + t * s.E / 2, s.E, scale, -1.0f,
             dqkv + (base + t) * s.row + head * s.E);
  }
  // The first key each query sees. A token whose neighbour is of the same document starts where that one does, or where
  // its window does.
  void find_starts(std::vector<int32_t> &starts) const {
    starts.resize(s.T);
    for (int64_t t = 0; t < s.T; t++) {
      starts[t] = t > 0 && segments[t] == segments[t - 1]
                      ? starts[t - 1]
                      : static_cast<int32_t>(std::find(segments, segments + t, segments[t]) - segments);
      starts[t] = static_cast<int32_t>(std::max<int64_t>(starts[t], t - s.window + 1));
    }
  }
  // Which of the keys first .. first + 15 a query sees: those of its own segment and window, up to itself.
  vint seen(int64_t first, int64_t query) const {
    vint same, order;
    const int64_t count = std::min<int64_t>(LANES, s.T - first);
    for (int i = 0; i < LANES; i++) order[i] = i;
    if (count == LANES)
      memcpy(&same, segments + first, sizeof same);
    else
      for (int i = 0; i < LANES; i++) same[i] = i < count ? segments[first + i] : -1;
    const int32_t own = static_cast<int32_t>(query - first), oldest = static_cast<int32_t>(own - s.window);
    return (same == segments[query]) & (order <= own) & (order > oldest);
  }
};

// The first key that any of the queries first .. last sees, on a panel's edge.
inline int64_t first_key(const std::vector<int32_t> &starts, int64_t first, int64_t last) {
  return *std::min_element(starts.begin() + first, starts.begin() + last) / PANEL * PANEL;
}

// scores of keys first .. end -> probabilities of one query; returns log sum exp. `scores` holds key `first` at 0.
inline float softmax_row(float *scores, const Row &row, int64_t first, int64_t end, int64_t query) {
  const int64_t own = std::min(end, first + round_up(query + 1 - first));
  vfloat top = splat(LOWEST);
  for (int64_t j = first; j < own; j += LANES) {
    vfloat x = row.seen(j, query) ? load(scores + j - first) : splat(LOWEST);
    store(scores + j - first, x);
    top = larger(x, top);
  }
  const float m = largest(top);
  vfloat total{};
  for (int64_t j = first; j < own; j += LANES) {
    vfloat x = load(scores + j - first), e = x == LOWEST ? splat(0.0f) : vexp(x - m);
    store(scores + j - first, e);
    total += e;
  }
  const float all = sum(total), inverse = 1.0f / all;
  for (int64_t j = first; j < own; j += LANES) store(scores + j - first, load(scores + j - first) * inverse);
  std::fill(scores + own - first, scores + end - first, 0.0f);
  return m + std::log(all);
}

// scores -> probabilities p from their log sum exp, and dp -> gradient of the scores, p (dp - sum of p dp).
inline void softmax_row_grad(float *p, float *dp, const Row &row, int64_t first, int64_t end, int64_t query, float lse,
                             float dot) {
  const int64_t own = std::min(end, first + round_up(query + 1 - first));
  for (int64_t j = first; j < own; j += LANES) {
    const vfloat x = row.seen(j, query) ? vexp(load(p + j - first) - lse) : splat(0.0f);
    store(p + j - first, x);
    store(dp + j - first, x * (load(dp + j - first) - dot));
  }
  std::fill(p + own - first, p + end - first, 0.0f);
  std::fill(dp + own - first, dp + end - first, 0.0f);
}

inline float dot_of(const float *a, const float *b, int64_t count) {
  vfloat total{};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) total += load(a + i) * load(b + i);
  float all = sum(total);
  for (; i < count; i++) all += a[i] * b[i];
  return all;
}

}  // namespace

// qkv_N((H+2K)E), cos_N(E/2), sin_N(E/2), segments_BT, heads_3 -> out_N(HE), lse_NH
KERNEL(attention) {
  float *result = out(params, 5), *lse = out(params, 6);
  const Sizes s = sizes_of(shapes, 0, 3, ints(params, 4));
  const int64_t keys_size = panels_size(s.E, s.T), values_size = panels_size(s.T, s.E);
#pragma omp parallel if (worth_sharing(4 * s.B * s.H * s.T * s.T * s.E))
  {
    static thread_local Scratch scratch;
    std::vector<int32_t> starts;
    Layout memory(scratch.get(keys_size + values_size + (s.Tp + 2 * QUERIES) * s.Ep + QUERIES * s.Tp + 8 * LANES));
    float *kt = memory.take(keys_size), *v = memory.take(values_size), *k = memory.take(s.Tp * s.Ep);
    float *q = memory.take(QUERIES * s.Ep), *o = memory.take(QUERIES * s.Ep), *p = memory.take(QUERIES * s.Tp);
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < s.B * s.K; task++) {
      const int64_t head = task % s.K;
      const Row row(s, in(params, 0), in(params, 1), in(params, 2), ints(params, 3), task / s.K);
      row.find_starts(starts);
      row.turned(s.H + head, 0, s.T, 1.0f, k);
      pack_panels(s.E, s.T, Matrix{k, 1, s.Ep}, kt);
      pack_panels(s.T, s.E, Matrix{row.qkv + (s.H + s.K + head) * s.E, s.row, 1}, v);
      for (int64_t first = 0; first < s.T; first += QUERIES) {
        const int64_t last = std::min(first + QUERIES, s.T), M = last - first, from = first_key(starts, first, last);
        const int64_t keys = round_up(last - from);
        for (int64_t h = head * s.G; h < (head + 1) * s.G; h++) {
          row.turned(h, first, last, s.scale, q);
          product(M, keys, s.E, Matrix{q, s.Ep, 1}, kt + from * s.E, s.E, p, s.Tp, false);
          for (int64_t i = 0; i < M; i++)
            lse[(row.base + first + i) * s.H + h] = softmax_row(p + i * s.Tp, row, from, from + keys, first + i);
          product(M, s.E, last - from, Matrix{p, s.Tp, 1}, v + from * PANEL, s.T, o, s.Ep, false);
          for (int64_t i = 0; i < M; i++)
            copy_row(o + i * s.Ep, s.E, result + ((row.base + first + i) * s.H + h) * s.E);
        }
      }
    }
  }
  return 0;
}

// qkv, cos, sin, segments, heads, out_N(HE), lse_NH, dout_N(HE) -> dqkv_N((H+2K)E)
KERNEL(attention_grad) {
  const float *result = in(params, 5), *lse = in(params, 6), *dresult = in(params, 7);
  float *dqkv = out(params, 8);
  const Sizes s = sizes_of(shapes, 0, 3, ints(params, 4));
  const int64_t keys_size = panels_size(s.E, s.T), values_size = panels_size(s.T, s.E), few = panels_size(QUERIES, s.E);
#pragma omp parallel if (worth_sharing(10 * s.B * s.H * s.T * s.T * s.E))
  {
    static thread_local Scratch scratch;
    std::vector<int32_t> starts;
    Layout memory(scratch.get(2 * keys_size + values_size + 3 * s.Tp * s.Ep + 2 * QUERIES * (s.Ep + s.Tp) + 2 * few +
                              16 * LANES));
    float *kt = memory.take(keys_size), *vt = memory.take(keys_size), *keys_by_width = memory.take(values_size);
    float *k = memory.take(s.Tp * s.Ep), *dk = memory.take(s.Tp * s.Ep), *dv = memory.take(s.Tp * s.Ep);
    float *q = memory.take(QUERIES * s.Ep), *dq = memory.take(QUERIES * s.Ep);
    float *p = memory.take(QUERIES * s.Tp), *dp = memory.take(QUERIES * s.Tp);
    float *q_panels = memory.take(few), *g_panels = memory.take(few);
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < s.B * s.K; task++) {
      const int64_t head = task % s.K;
      const Row row(s, in(params, 0), in(params, 1), in(params, 2), ints(params, 3), task / s.K);
      row.find_starts(starts);
      row.turned(s.H + head, 0, s.T, 1.0f, k);
      pack_panels(s.E, s.T, Matrix{k, 1, s.Ep}, kt);
      pack_panels(s.T, s.E, Matrix{k, s.Ep, 1}, keys_by_width);
      pack_panels(s.E, s.T, Matrix{row.qkv + (s.H + s.K + head) * s.E, 1, s.row}, vt);
      std::fill_n(dk, s.Tp * s.Ep, 0.0f);
      std::fill_n(dv, s.Tp * s.Ep, 0.0f);
      for (int64_t first = 0; first < s.T; first += QUERIES) {
        const int64_t last = std::min(first + QUERIES, s.T), M = last - first, from = first_key(starts, first, last);
        const int64_t keys = round_up(last - from), num_keys = last - from;
        for (int64_t h = head * s.G; h < (head + 1) * s.G; h++) {
          const int64_t heads_row = s.H * s.E, place = (row.base + first) * heads_row + h * s.E;
          const Matrix g{dresult + place, heads_row, 1};
          row.turned(h, first, last, s.scale, q);
          product(M, keys, s.E, Matrix{q, s.Ep, 1}, kt + from * s.E, s.E, p, s.Tp, false);
          product(M, keys, s.E, g, vt + from * s.E, s.E, dp, s.Tp, false);
          for (int64_t i = 0; i < M; i++)
            softmax_row_grad(p + i * s.Tp, dp + i * s.Tp, row, from, from + keys, first + i,
                             lse[(row.base + first + i) * s.H + h],
                             dot_of(result + place + i * heads_row, g.at(i, 0), s.E));
          pack_panels(M, s.E, g, g_panels);
          pack_panels(M, s.E, Matrix{q, s.Ep, 1}, q_panels);
          product(num_keys, s.E, M, Matrix{p, 1, s.Tp}, g_panels, M, dv + from * s.Ep, s.Ep, true);
          product(num_keys, s.E, M, Matrix{dp, 1, s.Tp}, q_panels, M, dk + from * s.Ep, s.Ep, true);
          product(M, s.E, num_keys, Matrix{dp, s.Tp, 1}, keys_by_width + from * PANEL, s.T, dq, s.Ep, false);
          row.turn_back(dq, h, first, last, s.scale, dqkv);
        }
      }
      row.turn_back(dk, s.H + head, 0, s.T, 1.0f, dqkv);
      for (int64_t t = 0; t < s.T; t++)
        copy_row(dv + t * s.Ep, s.E, dqkv + (row.base + t) * s.row + (s.H + s.K + head) * s.E);
    }
  }
  return 0;
}
