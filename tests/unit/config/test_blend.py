from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from llmstack.config.blend import BlendConfig, Weight, WeightSchedule, has_weight
from llmstack.config.data import AnyCorpus, StdlibConfig
from llmstack.config.load import load_recipe
from llmstack.config.quantity import Quantity
from tests.reference import blend as oracle
from tests.unit.config.conftest import SHORT

WEIGHT = TypeAdapter(Weight)
DOCS = "{source: stdlib_docs, split: train}"
DATA = f"    data: {DOCS}\n    eval"
PART = "stages.base.data.parts.a"
NUMBER = "expected a number, or a mapping with `shape` and `points`, got {}. Write a number."


def blended(parts: str) -> str:
    """The short recipe with a blend as the first stage's data."""
    return SHORT.replace(DATA, f"    data: {{source: blend, parts: {parts}}}\n    eval", 1)


def points(*pairs: tuple[int, float], shape: str = "steps") -> WeightSchedule:
    described = [{"at": f"{at} tokens", "weight": weight} for at, weight in pairs]
    return WeightSchedule.model_validate({"shape": shape, "points": described})


def test_a_blend_is_decoded(write) -> None:
    weight = "{shape: cosine, points: [{at: 0 tokens, weight: 0.9}, {at: 1.5M tokens, weight: 0.2}]}"
    recipe = blended(f"{{a-1: {{data: {DOCS}, weight: {weight}}}, b: {{data: {DOCS}, weight: 2, max_epochs: 0.5}}}}")
    blend = load_recipe(write(recipe)).config.stages["base"].data
    assert isinstance(blend, BlendConfig) and list(blend.parts) == ["a-1", "b"]
    first, second = blend.parts.values()
    assert isinstance(first.data, StdlibConfig)
    assert [(point.at, point.weight) for point in first.weight.points] == [
        (Quantity(0, "tokens"), 0.9),
        (Quantity(1_500_000, "tokens"), 0.2),
    ]
    assert (first.max_epochs, first.max_tokens, second.max_epochs) == (None, None, 0.5)
    assert second.weight == points((0, 2.0))


def test_a_number_is_a_weight_that_stays() -> None:
    assert WEIGHT.validate_python(3) == WEIGHT.validate_python(3.0) == points((0, 3.0))
    assert WEIGHT.validate_python(points((5, 1.0))) == points((5, 1.0))


def test_what_was_decoded_reads_back() -> None:
    parts = {"a": {"data": {"source": "stdlib_docs", "split": "train"}, "weight": 0.25, "max_tokens": "2M tokens"}}
    blend = TypeAdapter(AnyCorpus).validate_python({"source": "blend", "parts": parts})
    assert TypeAdapter(AnyCorpus).validate_python(blend.model_dump(mode="json", by_alias=True)) == blend


@pytest.mark.parametrize(
    ("part", "path", "message"),
    [
        ("weight: -1", "weight", "expected a number of at least 0, got -1. Correct it."),
        ("weight: .nan", "weight", "expected a number of at least 0, got nan. Correct it."),
        ("weight: .inf", "weight", "expected a number of at least 0, got inf. Correct it."),
        ("weight: true", "weight", NUMBER.format("True")),
        ("weight: half", "weight", NUMBER.format("'half'")),
        ("weight: null", "weight", NUMBER.format("None")),
        ("max_epochs: 1", "weight", "got nothing. Add `weight:`."),
        ("weight: {shape: cubic, points: [{at: 0 tokens, weight: 1}]}", "weight.shape", "got 'cubic'. Write one"),
        ("weight: {shape: steps, points: []}", "weight.points", "expected 1 or more entries, got (). Add one."),
        ("weight: {shape: steps, points: [{at: 0, weight: 1}]}", "weight.points.0.at", "Write a unit: `0 tokens`."),
        ("weight: {shape: steps, points: [{at: 5 steps, weight: 1}]}", "weight.points.0.at", "write `5 tokens`."),
        ("weight: {shape: steps, points: [{at: -5 tokens, weight: 1}]}", "weight.points.0.at", "Write 0 or more."),
        ("weight: {shape: steps, points: [{at: 0 tokens, weight: -1}]}", "weight.points.0.weight", "at least 0, got"),
        (
            "weight: {shape: steps, points: [{at: 2k tokens, weight: 1}, {at: 1k tokens, weight: 2}]}",
            "weight.points",
            "expected rising amounts in `at`, got 2000 tokens, 1000 tokens. Put them in order, each once.",
        ),
        (
            "weight: {shape: linear, points: [{at: 1k tokens, weight: 1}, {at: 1000 tokens, weight: 2}]}",
            "weight.points",
            "expected rising amounts in `at`, got 1000 tokens, 1000 tokens. Put them in order, each once.",
        ),
        ("weight: 1, max_epochs: 0", "max_epochs", "expected a number greater than 0, got 0. Raise it."),
        ("weight: 1, max_epochs: 2 epochs", "max_epochs", "expected a number, got '2 epochs'."),
        ("weight: 1, max_tokens: 2 epochs", "max_tokens", "`epochs` does not fit here: write `2 tokens`."),
        ("weight: 1, max_tokens: 2", "max_tokens", "Write a unit: `2 tokens`."),
        ("weight: 1, max_tokens: 0 tokens", "max_tokens", "Write more than 0."),
        ("weight: 1, max_rows: 3", "max_rows", "a known key (data, weight, max_epochs, max_tokens), got"),
    ],
)  # fmt: skip
def test_a_wrong_part_is_told_once_at_its_place(part, path, message, write, problems_in) -> None:
    found = problems_in(write(blended(f"{{a: {{data: {DOCS}, {part}}}}}")))
    assert list(found) == [f"{PART}.{path}"]
    assert message in found[f"{PART}.{path}"].message
    assert found[f"{PART}.{path}"].where == "mine.yaml:14"


def test_a_part_without_data_and_a_blend_without_parts(write, problems_in) -> None:
    assert list(problems_in(write(blended("{a: {weight: 1}}")))) == [f"{PART}.data"]
    found = problems_in(write(blended("{}")))
    assert "expected 1 or more entries, got {}" in found["stages.base.data.parts"].message
    assert list(problems_in(write(blended(f"{{'a b': {{data: {DOCS}, weight: 1}}}}")))) == [
        "stages.base.data.parts.a b"
    ]


@pytest.mark.parametrize(
    ("weights", "moment"),
    [
        (["0"], 0),
        (["{shape: steps, points: [{at: 0 tokens, weight: 1}, {at: 9k tokens, weight: 0}]}", "0"], 9000),
        (
            [
                "{shape: linear, points: [{at: 0 tokens, weight: 1}, {at: 500 tokens, weight: 0}]}",
                "{shape: linear, points: [{at: 500 tokens, weight: 0}, {at: 900 tokens, weight: 1}]}",
            ],
            500,
        ),
        (
            [
                "{shape: steps, points: [{at: 0 tokens, weight: 0}, {at: 900 tokens, weight: 1}]}",
                "{shape: cosine, points: [{at: 0 tokens, weight: 1}, {at: 500 tokens, weight: 0}]}",
            ],
            500,
        ),
    ],
)
def test_moments_without_any_weight_are_refused(weights, moment, write, problems_in) -> None:
    parts = ", ".join(f"p{number}: {{data: {DOCS}, weight: {weight}}}" for number, weight in enumerate(weights))
    found = problems_in(write(blended(f"{{{parts}}}")))
    assert list(found) == ["stages.base.data.parts"]
    words = f"expected a part with a weight above 0 at every moment, got none at {moment} tokens. Raise one."
    assert found["stages.base.data.parts"].message == words


def test_a_weight_that_has_begun_to_rise_is_one(write) -> None:
    # at 500 tokens the first is halfway to 1
    rising = "{shape: linear, points: [{at: 0 tokens, weight: 0}, {at: 1k tokens, weight: 1}]}"
    ending = "{shape: steps, points: [{at: 0 tokens, weight: 1}, {at: 500 tokens, weight: 0}]}"
    load_recipe(write(blended(f"{{a: {{data: {DOCS}, weight: {rising}}}, b: {{data: {DOCS}, weight: {ending}}}}}")))


@pytest.mark.parametrize("shape", ["linear", "cosine", "steps"])
@pytest.mark.parametrize("values", [(0, 1, 0, 0, 2), (1, 0, 0, 3, 0), (0, 0, 0, 0, 0), (2, 1, 0, 1, 0)])
def test_there_is_a_weight_where_the_oracle_has_one(shape, values) -> None:
    pairs = list(zip((10, 20, 30, 40, 50), values, strict=True))
    schedule = points(*pairs, shape=shape)
    for tokens in range(0, 61):
        assert has_weight(schedule, tokens) == (oracle.weight(shape, pairs, tokens) > 0), tokens


def test_a_blend_has_no_epochs(write, problems_in) -> None:
    recipe = blended(f"{{a: {{data: {DOCS}, weight: 1}}}}").replace("budget: 2M tokens", "budget: 2 epochs")
    found = problems_in(write(recipe))
    assert found["stages.base.budget"].message == (
        "expected tokens or steps, got 2 epochs: the parts of a blend end their epochs at different times. "
        "Write how many tokens."
    )
    load_recipe(write(recipe.replace("budget: 2 epochs", "budget: 20 steps", 1)))


@pytest.mark.parametrize(
    ("old", "path"),
    [
        ("eval_data: {source: stdlib_docs, split: eval}", "stages.base.eval_data"),
        (f"tokenizer: {{data: {DOCS}}}", "tokenizer.data"),
        (DATA, f"{PART}.data"),
    ],
)
def test_a_blend_elsewhere_than_in_data_is_refused(old, path, write, problems_in) -> None:
    inner = f"{{source: blend, parts: {{a: {{data: {DOCS}, weight: 1}}}}}}"
    new = f"    data: {{source: blend, parts: {{a: {{data: {inner}, weight: 1}}}}}}\n    eval" if old == DATA else None
    assert SHORT.count(old) >= 1
    text = SHORT.replace(old, new or old.replace(DOCS, inner).replace("{source: stdlib_docs, split: eval}", inner), 1)
    found = problems_in(write(text))
    assert list(found) == [f"{path}.source"]
    message = found[f"{path}.source"].message
    assert "expected a data source that fits here (" in message and "got 'blend'. Choose another." in message
    assert "blend" not in message.split(")")[0]


def test_paths_of_parts_are_looked_for(write, problems_in) -> None:
    found = problems_in(write(blended("{a: {data: {source: text, path: not/there}, weight: 1}}")))
    assert list(found) == [f"{PART}.data.path"]


def test_instances_are_checked_too() -> None:
    with pytest.raises(ValidationError, match="rising amounts"):
        points((5, 1.0), (5, 2.0))
