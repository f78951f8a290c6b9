"""The metrics log: strict JSON lines, TensorBoard beside it, cut back on resume."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from llmstack.engine.metrics import JsonLines, MetricsLog


def write_steps(folder, steps, *, after):
    with MetricsLog(folder / "metrics.jsonl", folder / "tb", after=after) as log:
        for step in steps:
            log.write(step, step * 10, {"train/loss": 1.0 / (step + 1)})
        log.sync()


def steps_in(path):
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_one_object_a_line_numbers_finite_or_null(tmp_path):
    with MetricsLog(tmp_path / "m.jsonl", tmp_path / "tb", after=-1) as log:
        values = {
            "a": np.float32(0.5),
            "b": float("nan"),
            "c": float("inf"),
            "d": 3,
            "e": None,
            "f": np.int64(4),
            "g": True,
        }
        log.write(7, 70, values)
    (line,) = (tmp_path / "m.jsonl").read_text().splitlines()
    row = json.loads(line, parse_constant=pytest.fail)
    assert row.pop("time") > 1e9
    assert row == {"step": 7, "tokens": 70, "a": 0.5, "b": None, "c": None, "d": 3, "e": None, "f": 4, "g": 1}


@pytest.mark.parametrize("value", ["1.0", b"1", [1.0], {}])
def test_what_is_not_a_number_is_refused(tmp_path, value):
    with (
        MetricsLog(tmp_path / "m.jsonl", tmp_path / "tb", after=-1) as log,
        pytest.raises(TypeError, match="a/b: expected a number"),
    ):
        log.write(1, 1, {"a/b": value})


def test_resume_cuts_later_lines(tmp_path):
    write_steps(tmp_path, range(6), after=-1)
    write_steps(tmp_path, (4, 5, 6), after=3)
    assert steps_in(tmp_path / "metrics.jsonl") == [0, 1, 2, 3, 4, 5, 6]


def test_fresh_start_empties_the_log(tmp_path):
    write_steps(tmp_path, range(6), after=-1)
    write_steps(tmp_path, (0,), after=-1)
    assert steps_in(tmp_path / "metrics.jsonl") == [0]


@pytest.mark.parametrize("damage", ['{"step": 2, "tok', '{"step": 2}', "\x00\x00\n", '{"tokens": 3}\n', "[1]\n"])
def test_lines_a_crash_left_are_dropped(tmp_path, damage):
    path = tmp_path / "x.jsonl"
    path.write_text('{"step": 0}\n{"step": 1}\n' + damage)
    with JsonLines(path, after=5) as lines:
        lines.append({"step": 2, "text": "ü"})
    assert path.read_text(encoding="utf-8") == '{"step": 0}\n{"step": 1}\n{"step": 2, "text": "ü"}\n'


def test_line_is_on_its_way_before_the_next_one(tmp_path):
    with JsonLines(tmp_path / "x.jsonl", after=-1) as lines:
        lines.append({"step": 1})
        assert steps_in(tmp_path / "x.jsonl") == [1]


def events(folder):
    """Reads TensorBoard records: uint64 length, its crc, the event, its crc."""
    from tensorboardX.proto.event_pb2 import Event  # after the log has chosen protobuf's implementation

    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        while content:
            length = int.from_bytes(content[:8], "little")
            yield Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]


def test_tensorboard_has_the_same_values(tmp_path):
    write_steps(tmp_path, range(3), after=-1)
    found = {(e.step, v.tag): v.simple_value for e in events(tmp_path / "tb") for v in e.summary.value}
    assert found == {(step, "train/loss"): pytest.approx(1 / (step + 1)) for step in range(3)}


def test_mindspore_can_be_imported_after_the_log(tmp_path):
    code = (
        "import sys; from pathlib import Path; from llmstack.engine.metrics import MetricsLog\n"
        "folder = Path(sys.argv[1])\n"
        "with MetricsLog(folder / 'm.jsonl', folder / 'tb', after=-1) as log: log.write(1, 1, {'a': 1})\n"
        "import mindspore"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
