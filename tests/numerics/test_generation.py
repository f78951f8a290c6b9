"""Decoding with a cache is the model without one: tokens, log-probabilities, padding, weights, compile counts."""

from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor

from llmstack.generation.generator import Generator
from llmstack.models.checkpoint_io import build_causal
from llmstack.nn import kernels
from llmstack.nn.native.build import library
from llmstack.runtime import compile_count
from tests.helpers.generation_checks import left_padded, train_graph_logp
from tests.helpers.models import oracle_shape, oracle_weights, tiny_config, vary_norms
from tests.reference.decoder import greedy
from tests.tolerances import EXACT, LOGP_MATCH_ATOL

PROMPT_LEN, NEW_TOKENS = 9, 8
LENGTHS = (9, 1, 4, 6)
COMPILED = pytest.param("compiled", marks=pytest.mark.skipif(library() is None, reason="no C++ compiler here"))


class Decoding:
    """A model, a generator for it, and prompts of different lengths."""

    def __init__(self, **changes):
        self.model = build_causal(tiny_config(**changes), seed=11)
        vary_norms(self.model)
        rng = np.random.default_rng(7)
        self.prompts = [rng.integers(0, self.model.vocab_size, length).tolist() for length in LENGTHS]
        self.generator = self.generator_of(len(self.prompts), PROMPT_LEN)

    def generator_of(self, batch_rows, prompt_len):
        return Generator(
            self.model, batch_rows=batch_rows, prompt_len=prompt_len, max_new_tokens=NEW_TOKENS, eos_ids=()
        )

    def answer(self, temperature, *, seed=0, prompts=None):
        tokens, lengths = left_padded(prompts or self.prompts, PROMPT_LEN)
        return self.generator.generate(tokens, lengths, temperature=temperature, rng=np.random.default_rng(seed))

    def uncached(self, ids):
        """Greedy decoding in float64 that runs the whole sequence again for each token."""
        return greedy(oracle_weights(self.model), oracle_shape(self.model.config), ids, NEW_TOKENS, ())


@pytest.fixture(scope="module", params=["composed", COMPILED])
def decoding(request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "composed":
            patch.setattr(kernels, "library", lambda: None)
        yield Decoding()


def test_cache_equals_no_cache(decoding):
    answers = decoding.answer(0.0)
    assert answers.tokens.tolist() == [decoding.uncached(ids) for ids in decoding.prompts]


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.7])
def test_sampled_log_probabilities_are_the_train_graphs(decoding, temperature):
    answers = decoding.answer(temperature, seed=3)
    expected = train_graph_logp(decoding.model, decoding.prompts, answers.tokens, temperature)
    np.testing.assert_allclose(answers.logp, expected, rtol=0, atol=LOGP_MATCH_ATOL)


def test_low_temperatures_approach_greedy(decoding):
    assert decoding.answer(1e-4, seed=5).tokens.tolist() == decoding.answer(0.0).tokens.tolist()


def test_a_row_does_not_see_its_neighbours(decoding):
    """Bitwise: each row's sums run over its own slots only."""
    before = decoding.answer(1.0, seed=2)
    others = [decoding.prompts[0], [3, 1], *decoding.prompts[2:]]
    after = decoding.answer(1.0, seed=2, prompts=others)
    rows = [0, 2, 3]
    np.testing.assert_array_equal(before.tokens[rows], after.tokens[rows])
    np.testing.assert_allclose(before.logp[rows], after.logp[rows], rtol=0, atol=EXACT)


def test_a_padded_row_is_the_row_alone(decoding):
    row = LENGTHS.index(4)
    alone = decoding.generator_of(1, 4)
    ids = decoding.prompts[row]
    noise = np.random.default_rng(0)
    answer = alone.generate(*left_padded([ids], 4), temperature=0.0, rng=noise)
    assert answer.tokens[0].tolist() == decoding.answer(0.0).tokens[row].tolist()


def test_updated_weights_are_used_without_a_copy_or_a_compile(decoding):
    decoding.answer(0.0)
    compile_count.install()
    before = compile_count.snapshot()
    kept = {name: parameter.asnumpy().copy() for name, parameter in decoding.model.parameters_and_names()}
    rng = np.random.default_rng(1)
    for parameter in decoding.model.trainable_params():
        parameter.set_data(
            Tensor(np.ascontiguousarray(parameter.asnumpy() + 0.1 * rng.normal(size=parameter.shape), np.float32))
        )
    changed = decoding.answer(0.0)
    assert changed.tokens.tolist() == [decoding.uncached(ids) for ids in decoding.prompts]
    for name, parameter in decoding.model.parameters_and_names():
        parameter.set_data(Tensor(kept[name]))
    restored = decoding.answer(0.0)
    assert restored.tokens.tolist() != changed.tokens.tolist()
    assert restored.tokens.tolist() == [decoding.uncached(ids) for ids in decoding.prompts]
    assert compile_count.snapshot() == before


def test_one_graph_for_every_prompt_length_temperature_and_seed(decoding):
    decoding.answer(1.0)
    compile_count.install()
    before = compile_count.snapshot()
    for seed, temperature in enumerate((0.0, 0.3, 1.0, 2.0, 0.0)):
        prompts = [ids[: 1 + (len(ids) + seed) % len(ids)] for ids in decoding.prompts]
        decoding.answer(temperature, seed=seed, prompts=prompts)
    assert compile_count.snapshot() == before


def test_tied_head():
    decoding = Decoding(tie_word_embeddings=True, num_hidden_layers=1)
    assert "head.weight" not in {parameter.name for parameter in decoding.generator.graph.get_parameters()}
    assert decoding.answer(0.0).tokens.tolist() == [decoding.uncached(ids) for ids in decoding.prompts]
