// Matrix products. One operand is packed into panels of a few vectors of columns, the other is read where it lies; a tile
// of the result stays in registers while a panel streams by (Goto & van de Geijn 2008).
// Every element is summed in the same order whatever the number of threads.
#pragma once
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "kernel.h"

// Accumulators and operands of a tile fill the 32 or 16 vector registers.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int TILE_ROWS = 8, TILE_VECTORS = 3;
#else
constexpr int TILE_ROWS = 6, TILE_VECTORS = 2;
#endif
constexpr int64_t PANEL = TILE_VECTORS * LANES;  // columns of a panel
constexpr int64_t DEPTH = 768;                   // longest sum held in registers: a panel of it stays in the L2 cache
constexpr int64_t BLOCK_ROWS = 64;               // rows that meet a panel before the next one comes
constexpr int64_t CHUNK = 128 * PANEL;           // columns packed at a time

// Element (i, j) is at p[i * row + j * col].
struct Matrix {
  const float *p;
  int64_t row, col;
  const float *at(int64_t i, int64_t j) const { return p + i * row + j * col; }
  Matrix from(int64_t i, int64_t j) const { return Matrix{at(i, j), row, col}; }
};

// Memory that only grows and is kept, so that a call does not fault in fresh pages.
class Scratch {
 public:
  float *get(int64_t count) {
    if (count > size_) {
      const size_t bytes = (count * sizeof(float) + 63) / 64 * 64;
      memory_.reset(static_cast<float *>(std::aligned_alloc(64, bytes)));
      size_ = count;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(float *p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> memory_;
  int64_t size_ = 0;
};

static inline int64_t pieces(int64_t whole, int64_t piece) { return (whole + piece - 1) / piece; }

// panel(k, j) = B(k, j) for j < width and 0 up to the next whole vector; a row of the panel takes PANEL places.
static inline void pack_panel(int64_t K, int64_t width, Matrix B, float *panel) {
  const int64_t end = round_up(width);
  constexpr int64_t LINES = 16;  // of the panel at a time, which stay in the L1 cache
  for (int64_t first = 0; first < K; first += LINES) {
    const int64_t last = std::min(first + LINES, K);
    if (B.col == 1)
      for (int64_t k = first; k < last; k++) copy_row(B.at(k, 0), width, panel + k * PANEL);
    else
      for (int64_t j = 0; j < width; j++)
        for (int64_t k = first; k < last; k++) panel[k * PANEL + j] = *B.at(k, j);
    for (int64_t k = first; width < end && k < last; k++) std::fill(panel + k * PANEL + width, panel + k * PANEL + end, 0.0f);
  }
}

// All N columns of B, one panel after the other; the matrix takes panels_size(K, N) places.
static inline int64_t panels_size(int64_t K, int64_t N) { return pieces(N, PANEL) * PANEL * K; }
static inline void pack_panels(int64_t K, int64_t N, Matrix B, float *panels) {
  for (int64_t n = 0; n < N; n += PANEL) pack_panel(K, std::min(PANEL, N - n), B.from(0, n), panels + n * K);
}

// Strips of TILE_ROWS rows of A, whose columns are contiguous; in a strip the rows of one column lie side by side.
static inline void pack_strips(int64_t M, int64_t K, const float *A, int64_t col, float *strips) {
  const int64_t whole = M / TILE_ROWS * TILE_ROWS;
  for (int64_t k = 0; k < K; k++, A += col) {
    for (int64_t m = 0; m < whole; m += TILE_ROWS)
      memcpy(strips + m * K + k * TILE_ROWS, A + m, sizeof(float) * TILE_ROWS);
    std::copy(A + whole, A + M, strips + whole * K + k * TILE_ROWS);
  }
}

// C(ROWS, VECS vectors) (+)= A(ROWS, K) panel(K, VECS vectors)
template <int ROWS, int VECS>
static inline void panel_tile(int64_t K, Matrix A, const float *panel, float *C, int64_t ldc, bool accumulate) {
  vfloat acc[ROWS][VECS];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
    for (int v = 0; v < VECS; v++) {
      acc[r][v] = vfloat{};
      __builtin_prefetch(C + r * ldc + v * LANES, 1);
    }
  const float *a = A.p;
  for (int64_t k = 0; k < K; k++) {
    vfloat b[VECS];
#pragma GCC unroll 4
    for (int v = 0; v < VECS; v++) b[v] = load(panel + v * LANES);
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
      const vfloat x = splat(a[r * A.row]);
#pragma GCC unroll 4
      for (int v = 0; v < VECS; v++) acc[r][v] += x * b[v];
    }
    a += A.col;
    panel += PANEL;
  }
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
    for (int v = 0; v < VECS; v++) {
      float *c = C + r * ldc + v * LANES;
      store(c, accumulate ? load(c) + acc[r][v] : acc[r][v]);
    }
}

template <int VECS>
static void rows_by_vectors(int64_t M, int64_t K, Matrix A, const float *panel, float *C, int64_t ldc, bool accumulate) {
  int64_t m = 0;
  for (; m + TILE_ROWS <= M; m += TILE_ROWS)
    panel_tile<TILE_ROWS, VECS>(K, A.from(m, 0), panel, C + m * ldc, ldc, accumulate);
  for (; m < M; m++) panel_tile<1, VECS>(K, A.from(m, 0), panel, C + m * ldc, ldc, accumulate);
}

// C(M, width) (+)= A(M, K) panel(K, width) where C has room for whole vectors.
static inline void rows_by_panel(int64_t M, int64_t width, int64_t K, Matrix A, const float *panel, float *C, int64_t ldc,
                                 bool accumulate) {
  switch (pieces(width, LANES)) {
    case 1: return rows_by_vectors<1>(M, K, A, panel, C, ldc, accumulate);
    case 2: return rows_by_vectors<std::min(2, TILE_VECTORS)>(M, K, A, panel, C, ldc, accumulate);
    default: return rows_by_vectors<TILE_VECTORS>(M, K, A, panel, C, ldc, accumulate);
  }
}

// C(M, N) (+)= A(M, K) B(K, N) for the first N columns and K rows of a matrix of `depth` rows packed in panels; C has room
// for whole vectors. For blocks that stay in the caches.
static inline void product(int64_t M, int64_t N, int64_t K, Matrix A, const float *panels, int64_t depth, float *C,
                           int64_t ldc, bool accumulate) {
  for (int64_t n = 0; n < N; n += PANEL)
    rows_by_panel(M, std::min(PANEL, N - n), K, A, panels + n * depth, C + n, ldc, accumulate);
}

// rows_by_panel for a C that has no room for whole vectors.
static inline void rows_by_any_panel(int64_t M, int64_t width, int64_t K, Matrix A, const float *panel, float *C,
                                     int64_t ldc, bool accumulate) {
  if (width % LANES == 0) return rows_by_panel(M, width, K, A, panel, C, ldc, accumulate);
  float edge[TILE_ROWS * PANEL];
  for (int64_t m = 0; m < M; m += TILE_ROWS) {
    const int64_t rows = std::min<int64_t>(TILE_ROWS, M - m);
    rows_by_panel(rows, width, K, A.from(m, 0), panel, edge, PANEL, false);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t j = 0; j < width; j++) {
        float *c = C + (m + r) * ldc + j;
        *c = accumulate ? *c + edge[r * PANEL + j] : edge[r * PANEL + j];
      }
  }
}

// Rows of C against some of the packed panels. A contiguous along its columns is packed first.
static inline void block_by_panels(int64_t M, int64_t N, int64_t K, Matrix A, const float *panels, float *C, int64_t ldc,
                                   bool accumulate) {
  static thread_local Scratch scratch;
  float *strips = nullptr;
  if (A.row == 1) pack_strips(M, K, A.p, A.col, strips = scratch.get(pieces(M, TILE_ROWS) * TILE_ROWS * K));
  for (int64_t n = 0; n < N; n += PANEL, panels += PANEL * K) {
    const int64_t width = std::min(PANEL, N - n);
    if (strips == nullptr) {
      rows_by_any_panel(M, width, K, A, panels, C + n, ldc, accumulate);
      continue;
    }
    for (int64_t m = 0; m < M; m += TILE_ROWS) {
      const int64_t rows = std::min<int64_t>(TILE_ROWS, M - m);
      rows_by_any_panel(rows, width, K, Matrix{strips + m * K, 1, TILE_ROWS}, panels, C + m * ldc + n, ldc, accumulate);
    }
  }
}

// C(M, N) (+)= A(M, K) B(K, N) for K up to DEPTH and N up to CHUNK, inside a parallel region; C has rows of ldc.
static inline void shared_product(int64_t M, int64_t N, int64_t K, Matrix A, Matrix B, float *panels, float *C, int64_t ldc,
                                  bool accumulate) {
  const int64_t threads = omp_get_num_threads(), count = pieces(N, PANEL);
  const int64_t rows = std::min(BLOCK_ROWS, pieces(pieces(M, 4 * threads), TILE_ROWS) * TILE_ROWS);
  const int64_t blocks = pieces(M, rows);
  const int64_t group = pieces(count, std::min(count, pieces(2 * threads, blocks)));
#pragma omp for schedule(dynamic, 1)
  for (int64_t p = 0; p < count; p++)
    pack_panel(K, std::min(PANEL, N - p * PANEL), B.from(0, p * PANEL), panels + p * PANEL * K);
#pragma omp for schedule(dynamic, 1) collapse(2)
  for (int64_t b = 0; b < blocks; b++)
    for (int64_t p = 0; p < count; p += group) {
      const int64_t m = b * rows, n = p * PANEL;
      block_by_panels(std::min(rows, M - m), std::min(group * PANEL, N - n), K, A.from(m, 0), panels + n * K,
                      C + m * ldc + n, ldc, accumulate);
    }
}

// C(M, N) = A(M, K) B(K, N), C stored row by row.
static inline void matmul(int64_t M, int64_t N, int64_t K, Matrix A, Matrix B, float *C) {
  static thread_local Scratch scratch;
  const int64_t depth = pieces(K, pieces(K, DEPTH)), chunk = std::min(CHUNK, pieces(N, PANEL) * PANEL);
  float *panels = scratch.get(chunk * depth);
#pragma omp parallel if (worth_sharing(2 * M * N * K))
  for (int64_t n = 0; n < N; n += chunk)
    for (int64_t k = 0; k < K; k += depth)
      shared_product(M, std::min(chunk, N - n), std::min(depth, K - k), A.from(0, k), B.from(k, n), panels, C + n, N, k > 0);
}
