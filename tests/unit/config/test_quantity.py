from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from llmstack.config.quantity import Budget, Interval, Quantity, StepCount, Units

BUDGET, INTERVAL, STEPS = TypeAdapter(Budget), TypeAdapter(Interval), TypeAdapter(StepCount)


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("2M tokens", 2_000_000, "tokens"),
        ("1.5k steps", 1500, "steps"),
        ("2 epochs", 2, "epochs"),
        ("0.5 epochs", 0.5, "epochs"),
        ("1 step", 1, "steps"),
        ("  3G   tokens ", 3 * 10**9, "tokens"),
        ("1e6 tokens", 1_000_000, "tokens"),
        ("100_000 tokens", 100_000, "tokens"),
        ("7steps", 7, "steps"),
    ],
)
def test_reads_amount_and_unit(text, amount, unit):
    parsed = BUDGET.validate_python(text)
    assert parsed == Quantity(amount, unit)
    assert isinstance(parsed.amount, int) == (unit != "epochs" or amount == int(amount))


@pytest.mark.parametrize(
    ("adapter", "value", "words"),
    [
        (BUDGET, 100, "got 100. Write a unit: `100 steps`."),
        (BUDGET, "100", "got '100'. Write a unit: `100 steps`."),
        (BUDGET, "-2 steps", "Write more than 0."),
        (BUDGET, "0 tokens", "Write more than 0."),
        (BUDGET, "2 hours", "`hours` does not fit here: write `2 steps`."),
        (BUDGET, "many steps", "Write a number and a unit."),
        (BUDGET, None, "got None. Write a number and a unit."),
        (BUDGET, True, "got True. Write a number and a unit."),
        (BUDGET, "1.5 steps", "Write a whole number of steps."),
        (
            INTERVAL,
            "1k tokens",
            "expected an amount of steps, e.g. `200 steps`, got '1k tokens'. `tokens` does not fit",
        ),
        (INTERVAL, "0 steps", "Write more than 0."),
        (STEPS, "-1 steps", "Write 0 or more."),
    ],
)
def test_refuses_with_a_fix(adapter, value, words):
    with pytest.raises(ValidationError) as caught:
        adapter.validate_python(value)
    assert words in str(caught.value)


def test_a_step_count_may_be_zero():
    assert STEPS.validate_python("0 steps") == Quantity(0, "steps")


def test_the_message_lists_all_units():
    with pytest.raises(ValidationError, match="an amount of steps, tokens or epochs, e.g. `200 steps`"):
        BUDGET.validate_python("x")


def test_steps_of_a_budget_by_hand():
    # 1,000 tokens an epoch in 10 steps: 100 tokens a step; 250 tokens are 2.5 steps, so 3
    assert Quantity(250, "tokens").steps(10, 1000) == 3
    assert Quantity(1000, "tokens").steps(10, 1000) == 10
    assert Quantity(1.5, "epochs").steps(10, 1000) == 15
    assert Quantity(0.01, "epochs").steps(10, 1000) == 1
    assert Quantity(7, "steps").steps(10, 1000) == 7


def test_large_token_budgets_do_not_round():
    # exact in integers where a float quotient would be one too many
    assert Quantity(3 * 10**17, "tokens").steps(3, 10**17) == 9


@given(st.integers(1, 10**12), st.sampled_from(["tokens", "steps", "epochs"]))
def test_the_text_form_reads_back(amount, unit):
    quantity = Quantity(amount, unit)
    assert BUDGET.validate_python(str(quantity)) == quantity
    assert BUDGET.validate_python(quantity) == quantity


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        (Quantity(2_500_000, "tokens"), "2.5M tokens"),
        (Quantity(1, "steps"), "1 step"),
        (Quantity(1500, "steps"), "1500 steps"),
    ],
)
def test_the_text_form_is_short(quantity, text):
    assert str(quantity) == text
    assert BUDGET.dump_python(quantity, mode="json") == text


def test_the_json_schema_is_a_pattern():
    schema = TypeAdapter(Budget).json_schema()
    assert schema["type"] == "string"
    assert "2M" not in schema["pattern"] and "tokens?" in schema["pattern"]
    assert Units(("steps",)).allowed == ("steps",)
