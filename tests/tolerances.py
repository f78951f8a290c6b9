"""Named tolerances of the tests, each with the reason for its size. A test uses one of these, never a literal."""

from __future__ import annotations

EXACT = 0.0
"""The same numbers in the same order: resume, replay, state round trips."""

F64_ATOL = 1e-12
"""Two float64 computations of one formula in a different order (about 1e4 roundings of 1e-16)."""

F64_RTOL = 1e-10
"""The same for numbers far from 1."""

F32_ATOL = 1e-5
"""A float32 kernel against a float64 oracle on values of order 1 (a few hundred roundings of 6e-8)."""

F32_RTOL = 1e-5
"""The same for numbers far from 1."""

GRADIENT_ATOL = 1e-5
"""A float32 gradient against the oracle's analytic gradient, for losses of order 1."""

FINITE_DIFFERENCE_ATOL = 1e-7
"""Central differences in float64 with step 1e-5: truncation 1e-10 of the third derivative, rounding 1e-11, margin."""

LOGP_MATCH_ATOL = 1e-4
"""Log-probabilities of one policy from two different float32 graphs (cached decoding against the training graph)."""

ON_POLICY_ATOL = 1e-6
"""log ratio and KL of a policy with itself, from one graph: zero up to the last float32 bits."""

EQUIVALENCE_ATOL = 1e-5
"""One training step reached in two ways (packed or not, accumulated or not, one process or two) in float32."""

PARITY_LOGITS_ATOL = 2e-5
"""Logits of order 1 to 10 of a float32 decoder here and in PyTorch: two layers' roundings on both sides."""

PARITY_GRADIENT_TOL = 1e-4
"""A parameter's gradient here and in PyTorch, over the largest of its entries."""

STANDARD_ERRORS = 3.0
"""A sampled mean may lie this many standard errors from its expectation (seeded, so the test never flickers)."""

QUANTISED_ATOL = {"F16": 2e-3, "BF16": 1e-2, "Q8_0": 2e-2, "Q4_0": 0.3, "Q4_1": 0.2}
"""Weights of mean 0.5 and deviation 0.3 after a GGUF format: half a step of 11 or 8 bits of a number near 2, or of the
largest number of a block in 255, 15 or (from its smallest to its largest) 15 steps, with margin."""

OTHER_NETWORK_ATOL = 1e-4
"""Logits and gradients of one set of weights on two networks of float32 operators in another order, values up to 10."""

SAME_OPTIMIZER_ATOL = 1e-6
"""Ten steps of one optimizer by two float32 implementations, rates of 1e-3 and parameters of order 1."""

BLEND_ATOL = 2e-6
"""Of a row: what sums of shares may be off by, and what is left of a part when it counts as used up."""

UNDIVIDED_RTOL = 2e-3
"""Bytes of a divided model against those of its matrices alone: norms, a thousandth of it, are not divided."""

PUBLISHED_RTOL = 5e-3
"""A figure of a paper, printed with three digits."""

LIMIT_RTOL = 0.02
"""A value near a limit against the limit itself, where the next term of the series is about a hundredth of it."""
