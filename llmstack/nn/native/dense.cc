// Linear layers without bias, forward and backward.
#include "few_rows.h"
#include "gemm.h"

// x_NK, w_OK -> y_NO = x w^T
KERNEL(dense) {
  const int64_t N = shapes[0][0], K = shapes[0][1], O = shapes[1][0];
  if (N <= few_rows::MOST_ROWS)
    few_rows::product(N, O, K, in(params, 0), in(params, 1), out(params, 2));
  else
    matmul(N, O, K, Matrix{in(params, 0), K, 1}, Matrix{in(params, 1), 1, K}, out(params, 2));
  return 0;
}

// dy_NO, w_OK -> dx_NK = dy w
KERNEL(dense_grad_input) {
  const int64_t N = shapes[0][0], O = shapes[0][1], K = shapes[1][1];
  matmul(N, K, O, Matrix{in(params, 0), O, 1}, Matrix{in(params, 1), K, 1}, out(params, 2));
  return 0;
}

// dy_NO, x_NK -> dw_OK = dy^T x
KERNEL(dense_grad_weight) {
  const int64_t N = shapes[0][0], O = shapes[0][1], K = shapes[1][1];
  matmul(O, K, N, Matrix{in(params, 0), 1, O}, Matrix{in(params, 1), K, 1}, out(params, 2));
  return 0;
}
