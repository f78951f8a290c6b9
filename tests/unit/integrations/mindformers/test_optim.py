from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn
from mindspore import dtype as mstype

from llmstack.errors import UserError
from llmstack.integrations.mindformers.optim import MindFormersAdamW
from llmstack.optim.adamw import AdamW
from llmstack.optim.train_step import ClippedUpdate
from llmstack.registry import OPTIMIZERS
from tests.tolerances import EXACT, SAME_OPTIMIZER_ATOL

SHAPES = ((7, 5), (5,), (2, 3, 4), (1,))
CONFIG = SimpleNamespace(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)


class Applied(nn.Cell):
    """Hands gradients on as a tuple: a tuple given to a compiled cell from outside would be a constant of its graph."""

    def __init__(self, optimizer):
        super().__init__(auto_prefix=False)
        self.update = ClippedUpdate(optimizer, max_grad_norm=1.0)

    def construct(self, lr, *grads):
        return self.update(lr, grads)


class Trained:
    """Parameters with an optimizer in a compiled, clipped step."""

    def __init__(self, make, config=CONFIG):
        random = np.random.default_rng(0)
        values = [random.normal(size=shape).astype(np.float32) for shape in SHAPES]
        self.params = [Parameter(Tensor(value), name=f"p{i}") for i, value in enumerate(values)]
        self.optimizer = make(self.params, config)
        self.cell = Applied(self.optimizer)

    def step(self, seed, *, bad=None, size=1.0):
        grads = gradients(seed, size)
        if bad is not None:
            grads[1][2] = bad
        return self.cell(Tensor(1e-3 * (1 + seed % 3), mstype.float32), *(Tensor(grad) for grad in grads))

    def values(self):
        return [param.asnumpy().copy() for param in self.params]

    def everything(self):
        return [*self.values(), *(array for _, array in sorted(self.optimizer.state().items()))]


def gradients(seed, size):
    random = np.random.default_rng(100 + seed)
    return [(size * random.normal(size=shape)).astype(np.float32) for shape in SHAPES]


@pytest.fixture(scope="module")
def theirs():
    return Trained(MindFormersAdamW)


@pytest.fixture(scope="module")
def start(theirs):
    return theirs.values(), theirs.optimizer.state()


@pytest.fixture
def fresh(theirs, start):
    """The compiled step put back to its beginning."""
    values, state = start
    for param, value in zip(theirs.params, values, strict=True):
        param.set_data(Tensor(value))
    theirs.optimizer.restore(state)
    return theirs


def same(first, second, atol):
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


def test_ten_clipped_steps_equal_ours(fresh):
    ours = Trained(AdamW)
    for seed in range(10):
        size = 0.01 if seed % 2 else 3.0  # both below and above the clip
        norms = [one.step(seed, size=size)[0] for one in (ours, fresh)]
        np.testing.assert_allclose(norms[0].asnumpy(), norms[1].asnumpy(), rtol=1e-6)
    same(fresh.values(), ours.values(), SAME_OPTIMIZER_ATOL)
    assert fresh.optimizer.state().keys() == ours.optimizer.state().keys()
    for name, array in ours.optimizer.state().items():
        np.testing.assert_allclose(fresh.optimizer.state()[name], array, atol=SAME_OPTIMIZER_ATOL)
    assert int(fresh.optimizer.state()["step"]) == 10


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("before", [0, 3])
def test_a_step_that_is_not_finite_changes_nothing(fresh, bad, before):
    for seed in range(before):
        fresh.step(seed)
    kept = fresh.everything()
    _, finite = fresh.step(before, bad=bad)
    assert not finite.asnumpy()
    same(fresh.everything(), kept, EXACT)
    fresh.step(before)
    assert int(fresh.optimizer.state()["step"]) == before + 1
    assert all(np.isfinite(value).all() for value in fresh.everything())


def test_it_goes_on_exactly_from_its_state(fresh):
    for seed in range(2):
        fresh.step(seed)
    values, state = fresh.values(), fresh.optimizer.state()
    fresh.step(2)
    wanted = fresh.everything()
    for param, value in zip(fresh.params, values, strict=True):
        param.set_data(Tensor(value))
    fresh.optimizer.restore(state)
    fresh.step(2)
    same(fresh.everything(), wanted, EXACT)


def test_only_matrices_decay(fresh):
    values = fresh.values()
    fresh.cell(Tensor(0.5, mstype.float32), *(Tensor(np.zeros(shape, np.float32)) for shape in SHAPES))
    for before, after in zip(values, fresh.values(), strict=True):
        factor = 1 - 0.5 * 0.1 if before.ndim >= 2 else 1.0
        np.testing.assert_allclose(after, before * factor, atol=SAME_OPTIMIZER_ATOL)


def test_a_recipe_finds_it_by_name():
    assert OPTIMIZERS.get("mindformers:AdamW") is MindFormersAdamW


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda s: s.pop("m.p0"), "m.p0"),
        (lambda s: s.update(extra=np.zeros(1)), "extra"),
        (lambda s: s.update({"v.p1": np.zeros(3, np.float32)}), "v.p1"),
    ],
)
def test_state_that_does_not_fit_is_refused(theirs, change, named):
    state = theirs.optimizer.state()
    change(state)
    with pytest.raises(UserError, match=f"differs in {named}"):
        theirs.optimizer.restore(state)


def test_what_it_cannot_train_is_refused():
    with pytest.raises(UserError, match="expected parameters to train, got none"):
        MindFormersAdamW([], CONFIG)
    half = Parameter(Tensor(np.ones(2), mstype.float16), name="half")
    with pytest.raises(UserError, match="expected float32 parameters, got half in Float16"):
        MindFormersAdamW([half], CONFIG)
    single = Parameter(Tensor(np.ones(2), mstype.float32), name="single")
    with pytest.raises(UserError, match=r"optim.betas: expected decay rates above 0.*got \[0.0, 0.9\]"):
        MindFormersAdamW([single], SimpleNamespace(**{**vars(CONFIG), "betas": (0.0, 0.9)}))
