"""The maths check of the verifier, as the program that runs under its limits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from llmstack.config.reward_rules import NumericAnswerConfig
from llmstack.rewards.numeric_answer import NumericAnswer
from llmstack.rl.rewards_api import RewardBatch

RULE = NumericAnswerConfig(kind="numeric_answer", expressions=True)


def command() -> list[str]:
    """Program and arguments that start :func:`main` in an isolated interpreter."""
    start = "import sys; sys.path.insert(0, sys.argv[1]); from llmstack.rewards.maths import main; main()"
    return [sys.executable, "-I", "-c", start, str(Path(__file__).resolve().parents[2])]


def main() -> None:
    """Reads a list of [answer, reference] and writes a line for each: a number or null, as soon as it is known."""
    rule = NumericAnswer(RULE, where="verifier")
    for response, answer in json.load(sys.stdin):
        (score,) = rule(RewardBatch(prompts=[""], responses=[response], answers=[answer]))
        sys.stdout.write(json.dumps(score) + "\n")
        sys.stdout.flush()
