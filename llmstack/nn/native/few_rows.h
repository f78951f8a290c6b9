// y = x W^T for few rows of x, where packing W would cost as much as the product: W is read once, as it lies, and x is
// packed instead. Every element is summed in the same order whatever the number of threads.
#pragma once
#include "gemm.h"

namespace few_rows {

constexpr int64_t MOST_ROWS = 128;   // from about here on packing W, once for all rows, is the cheaper way
constexpr int64_t WEIGHT_ROWS = 48;  // rows of W of one task

// x_NI, w_OI -> y_NO
inline void product(int64_t N, int64_t O, int64_t I, const float *x, const float *w, float *y) {
  static thread_local Scratch scratch;
  float *panels = scratch.get(panels_size(I, N));
#pragma omp parallel if (worth_sharing(2 * N * O * I))
  {
    alignas(64) float c[WEIGHT_ROWS * PANEL];
#pragma omp for schedule(static) collapse(2)
    for (int64_t n = 0; n < N; n += PANEL)
      for (int64_t i = 0; i < I; i += LANES)
        pack_panel(std::min<int64_t>(LANES, I - i), std::min(PANEL, N - n), Matrix{x + n * I + i, 1, I},
                   panels + n * I + i * PANEL);
#pragma omp for schedule(static) collapse(2)
    for (int64_t o = 0; o < O; o += WEIGHT_ROWS)
      for (int64_t n = 0; n < N; n += PANEL) {
        const int64_t rows = std::min(WEIGHT_ROWS, O - o), width = std::min(PANEL, N - n);
        rows_by_panel(rows, width, I, Matrix{w + o * I, I, 1}, panels + n * I, c, PANEL, false);
        for (int64_t j = 0; j < width; j++)
          for (int64_t r = 0; r < rows; r++) y[(n + j) * O + o + r] = c[r * PANEL + j];
      }
  }
}

}  // namespace few_rows
