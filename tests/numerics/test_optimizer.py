"""AdamW in a compiled graph against the float64 oracle, clipping, and steps that must change nothing."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from mindspore import dtype as mstype

from llmstack.optim.adamw import AdamW
from llmstack.optim.train_step import ClippedUpdate, TrainStep
from tests.reference import adamw as reference
from tests.tolerances import EXACT, F32_ATOL, F32_RTOL

SHAPES = ((7, 5), (5,), (2, 3, 4), ())


def config(**changes):
    return SimpleNamespace(**{"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.1, **changes})


class Quadratic(nn.Cell):
    """``inv_count * sum(mask * (x w + b - y)^2)``."""

    def __init__(self, seed=0):
        super().__init__()
        random = np.random.default_rng(seed)
        self.weight = Parameter(Tensor(random.normal(size=(4, 3)).astype(np.float32)), name="weight")
        self.bias = Parameter(Tensor(random.normal(size=3).astype(np.float32)), name="bias")

    def construct(self, inv_count, x, y, mask):
        error = ops.matmul(x, self.weight) + self.bias - y
        loss = ((error * error).sum(-1) * mask).sum() * inv_count
        return loss, mask.sum()


class Applied(nn.Cell):
    """Hands gradients on as a tuple: a tuple given to a compiled cell from outside would be a constant of its graph."""

    def __init__(self, cell):
        super().__init__(auto_prefix=False)
        self.cell = cell

    def construct(self, lr, *grads):
        return self.cell(lr, grads)


class Finite(nn.Cell):
    """An optimizer told that its gradients are finite and short enough."""

    def __init__(self, optimizer):
        super().__init__(auto_prefix=False)
        self.optimizer = optimizer
        self.finite = Tensor(True)
        self.scale = Tensor(1.0, mstype.float32)

    def construct(self, lr, grads):
        return self.optimizer(lr, grads, self.scale, self.finite)


def batch(seed, *, rows=6):
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(rows, 4)), random.normal(size=(rows, 3))
    return x.astype(np.float32), y.astype(np.float32), np.ones(rows, np.float32)


def quadratic_grads(weight, bias, x, y, mask, inv_count):
    error = (x @ weight + bias - y) * mask[:, None] * 2 * inv_count
    return x.T.astype(np.float64) @ error, error.sum(0)


@pytest.mark.parametrize(("betas", "eps"), [((0.9, 0.999), 1e-8), ((0.8, 0.95), 1e-3), ((0.0, 0.9), 1e-8)])
def test_twenty_steps_equal_the_oracle(betas, eps):
    random = np.random.default_rng(3)
    values = [random.normal(size=shape).astype(np.float32) for shape in SHAPES]
    params = [Parameter(Tensor(value), name=f"p{i}") for i, value in enumerate(values)]
    ours = AdamW(params, config(betas=betas, eps=eps))
    step_cell = Applied(Finite(ours))
    oracle = reference.AdamW(values, betas=betas, eps=eps, weight_decay=0.1)
    for step in range(20):
        grads = [random.normal(scale=10.0 ** (step % 5 - 3), size=s).astype(np.float32) for s in SHAPES]
        lr = 0.02 / (1 + step)
        taken = step_cell(Tensor(lr, mstype.float32), *map(Tensor, grads))
        oracle.step(lr, grads)
        assert int(taken.asnumpy()) == step + 1
        for param, wanted in zip(params, oracle.params, strict=True):
            np.testing.assert_allclose(param.asnumpy(), wanted, rtol=F32_RTOL, atol=F32_ATOL)
    for i, name in enumerate(p.name for p in params):
        np.testing.assert_allclose(ours.state()[f"m.{name}"], oracle.first[i], rtol=F32_RTOL, atol=F32_ATOL)
        np.testing.assert_allclose(ours.state()[f"v.{name}"], oracle.second[i], rtol=F32_RTOL, atol=F32_ATOL)


def test_first_step_by_hand():
    # m = 0.1 g, v = 0.001 g^2, corrected to g and g^2: the step is lr * sign(g); decay takes lr * w = 0.01 of p
    params = [Parameter(Tensor([[1.0, -2.0]], mstype.float32), name="matrix"),
              Parameter(Tensor([1.0, -2.0], mstype.float32), name="vector")]  # fmt: skip
    grads = (Tensor([[3.0, -0.5]], mstype.float32), Tensor([3.0, -0.5], mstype.float32))
    Finite(AdamW(params, config()))(Tensor(0.1, mstype.float32), grads)
    np.testing.assert_allclose(params[0].asnumpy(), [[0.99 - 0.1, -1.98 + 0.1]], atol=F32_ATOL)
    np.testing.assert_allclose(params[1].asnumpy(), [1.0 - 0.1, -2.0 + 0.1], atol=F32_ATOL)


def test_zero_gradient_leaves_vectors_alone_and_decays_matrices():
    params = [Parameter(Tensor(np.ones(s, np.float32)), name=f"p{len(s)}") for s in ((2, 2), (2,))]
    Finite(AdamW(params, config()))(Tensor(0.5, mstype.float32), tuple(ops.zeros_like(p) for p in params))
    np.testing.assert_allclose(params[0].asnumpy(), 0.95, rtol=F32_RTOL)
    np.testing.assert_array_equal(params[1].asnumpy(), 1.0)


@pytest.mark.parametrize("max_norm", [0.5, 1e4])
def test_clipped_steps_equal_the_oracle(max_norm):
    random = np.random.default_rng(5)
    values = [random.normal(size=shape).astype(np.float32) for shape in SHAPES[:3]]
    params = [Parameter(Tensor(value), name=f"p{i}") for i, value in enumerate(values)]
    update = Applied(ClippedUpdate(AdamW(params, config()), max_grad_norm=max_norm))
    oracle = reference.AdamW(values, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)
    for _ in range(20):
        grads = [random.normal(scale=3.0, size=value.shape).astype(np.float32) for value in values]
        norm, finite = update(Tensor(0.01, mstype.float32), *map(Tensor, grads))
        clipped, wanted_norm = reference.clip(grads, max_norm)
        oracle.step(0.01, clipped)
        np.testing.assert_allclose(norm.asnumpy(), wanted_norm, rtol=F32_RTOL)
        assert bool(finite.asnumpy())
        for param, wanted in zip(params, oracle.params, strict=True):
            np.testing.assert_allclose(param.asnumpy(), wanted, rtol=F32_RTOL, atol=F32_ATOL)


def test_train_step_equals_the_oracle_from_gradient_to_weight():
    objective = Quadratic()
    values = [objective.weight.asnumpy().copy(), objective.bias.asnumpy().copy()]
    step = TrainStep(objective, AdamW(objective.trainable_params(), config()), max_grad_norm=1.0)
    oracle = reference.AdamW(values, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)
    for seed in range(20):
        x, y, mask = batch(seed)
        inv_count = 1 / mask.sum()
        outputs = step(*(Tensor(v, mstype.float32) for v in (0.05, inv_count)), *(Tensor(a) for a in (x, y, mask)))
        weight, bias = oracle.params
        loss = (((x @ weight + bias - y) ** 2).sum(1) * mask).sum() * inv_count
        clipped, norm = reference.clip(quadratic_grads(weight, bias, x, y, mask, inv_count), 1.0)
        oracle.step(0.05, clipped)
        np.testing.assert_allclose([o.asnumpy() for o in outputs], [loss, norm, 1.0, 6.0], rtol=F32_RTOL)
        np.testing.assert_allclose(objective.weight.asnumpy(), oracle.params[0], rtol=F32_RTOL, atol=F32_ATOL)
        np.testing.assert_allclose(objective.bias.asnumpy(), oracle.params[1], rtol=F32_RTOL, atol=F32_ATOL)


@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e30])
def test_step_with_a_gradient_that_is_not_finite_changes_nothing(poison):
    objective = Quadratic()
    optimizer = AdamW(objective.trainable_params(), config())
    step = TrainStep(objective, optimizer, max_grad_norm=1.0)
    lr, inv_count = Tensor(0.05, mstype.float32), Tensor(1 / 6, mstype.float32)
    step(lr, inv_count, *map(Tensor, batch(0)))
    before = {**optimizer.state(), "weight": objective.weight.asnumpy().copy(), "bias": objective.bias.asnumpy().copy()}
    x, y, mask = batch(1)
    x[2, 1] = poison
    _, _, finite, _ = step(lr, inv_count, Tensor(x), Tensor(y), Tensor(mask))
    assert not bool(finite.asnumpy())
    after = {**optimizer.state(), "weight": objective.weight.asnumpy(), "bias": objective.bias.asnumpy()}
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, atol=EXACT, rtol=EXACT, err_msg=name)
    _, _, finite, _ = step(lr, inv_count, *map(Tensor, batch(2)))
    assert bool(finite.asnumpy()) and int(optimizer.state()["step"]) == 2


def test_restored_optimizer_goes_on_bit_for_bit():
    def run(objective, optimizer, seeds):
        step = TrainStep(objective, optimizer, max_grad_norm=1.0)
        for seed in seeds:
            step(Tensor(0.05, mstype.float32), Tensor(1 / 6, mstype.float32), *map(Tensor, batch(seed)))

    straight = Quadratic()
    run(straight, AdamW(straight.trainable_params(), config()), range(6))
    first, second = Quadratic(), Quadratic(seed=9)
    optimizer = AdamW(first.trainable_params(), config())
    run(first, optimizer, range(3))
    resumed = AdamW(second.trainable_params(), config())
    resumed.restore(optimizer.state())
    for target, source in zip(second.trainable_params(), first.trainable_params(), strict=True):
        target.set_data(Tensor(source.asnumpy()))
    run(second, resumed, range(3, 6))
    np.testing.assert_array_equal(second.weight.asnumpy(), straight.weight.asnumpy())
    np.testing.assert_array_equal(second.bias.asnumpy(), straight.bias.asnumpy())


def test_an_optimizer_that_has_run_can_be_set_back():
    """A state put back into a graph that is compiled and has run must reach that graph, twice in a row."""
    objective = Quadratic()
    optimizer = AdamW(objective.trainable_params(), config())
    step = TrainStep(objective, optimizer, max_grad_norm=1.0)

    def go(seeds):
        for seed in seeds:
            step(Tensor(0.05, mstype.float32), Tensor(1 / 6, mstype.float32), *map(Tensor, batch(seed)))
        return {**optimizer.state(), "weight": objective.weight.asnumpy().copy()}

    start = go(range(2))
    bias = objective.bias.asnumpy().copy()
    straight = go(range(2, 4))
    for _ in range(2):
        optimizer.restore({name: array for name, array in start.items() if name != "weight"})
        objective.weight.set_data(Tensor(start["weight"]))
        objective.bias.set_data(Tensor(bias))
        again = go(range(2, 4))
        assert all(np.array_equal(again[name], straight[name]) for name in straight)
