from __future__ import annotations

import threading
import time

import pytest

from llmstack.annotation.queue import LABELS_FILE, HumanQueue, locked
from llmstack.errors import DataError, UserError
from tests.helpers.annotation import read_rows, write_rows


@pytest.fixture
def queue(tmp_path):
    return HumanQueue(tmp_path / "deep" / "queue.jsonl", tmp_path, "class", ("good", "bad"))


def labels(queue):
    return {said.item.prompt: said.label for said in queue.labels().values()}


def test_what_is_filled_in_is_kept_when_the_queue_is_written_anew(queue, tmp_path):
    assert queue.labels() == {}
    queue.write({}, [{"prompt": "x", "label": ""}, {"prompt": "y", "label": ""}])
    assert queue.labels() == {}
    write_rows(queue.path, [{"prompt": "x", "label": "good"}, {"prompt": "y", "label": ""}])
    assert labels(queue) == {"x": "good"}
    queue.write(queue.labels(), [{"prompt": "y", "label": ""}])
    assert read_rows(queue.path) == [{"prompt": "y", "label": ""}]
    assert labels(queue) == {"x": "good"}
    assert [row["label"] for row in read_rows(tmp_path / LABELS_FILE)] == ["good"]


def test_an_old_queue_that_is_saved_once_more_changes_nothing(queue):
    old = [{"prompt": "x", "label": "good"}, {"prompt": "y", "label": ""}]
    write_rows_in(queue, old)
    queue.write(queue.labels(), [])
    write_rows_in(queue, old)
    assert labels(queue) == {"x": "good"}
    write_rows_in(queue, [{"prompt": "x", "label": "bad"}])
    with pytest.raises(DataError, match=rf"queue.jsonl:1: expected the label this item has in .*{LABELS_FILE}:1"):
        queue.labels()


def write_rows_in(queue, rows):
    queue.path.parent.mkdir(exist_ok=True)
    write_rows(queue.path, rows)


def test_one_process_at_a_time_is_inside(tmp_path):
    order, entered = [], threading.Event()

    def other():
        entered.set()
        with locked(tmp_path / "new"):
            order.append("other")

    with locked(tmp_path / "new"):
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait(10)
        time.sleep(0.05)
        order.append("first")
    thread.join(10)
    assert order == ["first", "other"]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="out: expected a folder that can be written"), locked(tmp_path / "file"):
        pass
