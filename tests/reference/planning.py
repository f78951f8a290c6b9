"""Costs of training, by doing what the closed formulas sum up: matrices counted, rings turned, pipelines run."""

from __future__ import annotations


def llama_parameters(sizes, *, tied=False, bias=False):
    """Numbers of a Llama-like model of ``(D, L, H, K, E, F, V)``, matrix by matrix (Touvron et al. 2023, section 2)."""
    width, layers, heads, kv_heads, head, mlp, vocab = sizes
    total = vocab * width
    for _ in range(layers):
        total += heads * head * width + (heads * head if bias else 0)
        for _ in ("key", "value"):
            total += kv_heads * head * width + (kv_heads * head if bias else 0)
        total += width * heads * head
        total += 2 * mlp * width + width * mlp
        total += 2 * width
    return total + width + (0 if tied else vocab * width)


def matmul_flops(rows, inner, columns):
    """A multiplication and an addition for each product."""
    return 2 * rows * inner * columns


def forward_flops(sizes, tokens, targets, window=None):
    """(products with weights, attention) of one row, position by position; keys are counted as T/2 counts them."""
    width, layers, heads, kv_heads, head, mlp, vocab = sizes
    weights = attention = 0.0
    for _ in range(layers):
        weights += matmul_flops(tokens, width, (heads + 2 * kv_heads) * head)
        weights += matmul_flops(tokens, heads * head, width)
        weights += 2 * matmul_flops(tokens, width, mlp) + matmul_flops(tokens, mlp, width)
        for position in range(tokens):
            # a query sees half of itself, so that the mean over a row is T/2
            keys = position + 0.5
            if window is not None and keys > window:
                keys = window
            attention += heads * 2 * matmul_flops(1, head, 1) * keys
    return weights + matmul_flops(targets, width, vocab), attention


def ring_all_reduce(size, ranks):
    """Bytes each rank sends, by sending: parts go round until each has been summed once, then round again."""
    part = [[{r} for _ in range(ranks)] for r in range(ranks)]
    sent = [0.0] * ranks
    for stage in ("sum", "gather"):
        for step in range(ranks - 1):
            moves = []
            for r in range(ranks):
                index = (r - step + (1 if stage == "gather" else 0)) % ranks
                moves.append(((r + 1) % ranks, index, set(part[r][index])))
                sent[r] += size / ranks
            for to, index, seen in moves:
                part[to][index] = part[to][index] | seen
    everyone = set(range(ranks))
    assert all(seen == everyone for rank in part for seen in rank)
    return max(sent)


def one_forward_one_backward(stages, micro_batches):
    """(idle time over busy time, most micro-batches kept at once by each rank) of a pipeline that is run.

    A forward takes 1, a backward 2; a rank begins with as many forwards as there are ranks from it to the end and then
    does what is ready, backward first (Narayanan et al. 2021, figure 4).
    """
    forward_done = [[None] * micro_batches for _ in range(stages)]
    backward_done = [[None] * micro_batches for _ in range(stages)]
    orders = []
    for s in range(stages):
        warm = min(stages - s, micro_batches)
        order = [("f", m) for m in range(warm)]
        following = warm
        for m in range(micro_batches):
            order.append(("b", m))
            if following < micro_batches:
                order.append(("f", following))
                following += 1
        orders.append(order)
    clock, place = [0.0] * stages, [0] * stages
    while any(place[s] < len(orders[s]) for s in range(stages)):
        for s in range(stages):
            while place[s] < len(orders[s]):
                what, m = orders[s][place[s]]
                needs = (forward_done[s - 1][m] if s else 0.0) if what == "f" else (
                    backward_done[s + 1][m] if s + 1 < stages else forward_done[s][m]
                )  # fmt: skip
                if needs is None:
                    break
                clock[s] = max(clock[s], needs) + (1.0 if what == "f" else 2.0)
                (forward_done if what == "f" else backward_done)[s][m] = clock[s]
                place[s] += 1
    busy = 3.0 * micro_batches
    most = []
    for s in range(stages):
        held = peak = 0
        for what, _ in orders[s]:
            held += 1 if what == "f" else -1
            peak = max(peak, held)
        most.append(peak)
    return (max(clock) - busy) / busy, most
