from __future__ import annotations

import json
import multiprocessing
import threading

import pytest

from llmstack.annotation.loop import in_overlap
from llmstack.data.records import PreferenceRecord, ResponseRecord
from llmstack.errors import DataError, UserError
from llmstack.registry import ANNOTATORS, SOURCES
from tests.helpers.annotation import TEXTS, Job, classing, preference_job, read_rows, user_text, write_rows
from tests.helpers.chat_server import ChatServer, completion, malformed, reset, status


@pytest.fixture
def job(here, server):
    return Job(here, server.url)


def records_of(path, record):
    options = SOURCES.config("jsonl")(source="jsonl", path=str(path), record=record)
    return list(SOURCES.get("jsonl")(options, seed=0).records())


def test_rounds_until_the_queue_is_empty(job, server):
    report = job.run()
    assert report["records"] == {"total": 4, "human": 0, "automatic": 4, "semi_automatic": 0}
    assert [(row["prompt"], row["response"]) for row in job.records] == [
        ("a fine day", "good"), ("a foul night", "bad"), ("fine food", "good"), ("foul play", "bad")]  # fmt: skip
    (waiting,) = job.queue
    assert (waiting["prompt"], waiting["label"], waiting["candidates"]) == ("so so", "", [])
    assert waiting["why"] == ["judge: expected one of good, bad on the last line, got 'I cannot tell.'"]
    assert report["queue"]["why"] == {"unreadable": 1}
    assert len(server.seen) == 5 + 1  # one is asked again

    job.fill(lambda row: "bad")
    report = job.run()
    assert report["records"] == {"total": 5, "human": 0, "automatic": 4, "semi_automatic": 1}
    assert (job.records[-1]["response"], job.records[-1]["label_source"]) == ("bad", "semi_automatic")
    assert job.queue == []
    assert len(server.seen) == 6
    assert (report["annotators"]["judge"]["new"], report["annotators"]["judge"]["kept"]) == (0, 6)
    assert [row["where"] for row in job.records] == [f"in.jsonl:{n}" for n in (1, 2, 3, 4, 5)]


def test_records_are_data_for_stages(job):
    job.run()
    records = records_of(job.out / "records.jsonl", "prompt_response")
    assert records[0] == ResponseRecord("a fine day", "good") and len(records) == 4


def test_a_rerun_asks_for_what_is_new_alone(job, server):
    job.run()
    before = len(server.seen)
    write_rows("in.jsonl", [{"prompt": text} for text in ("new and fine", *TEXTS)])
    job.run()
    assert [user_text(seen["body"]).splitlines()[-3] for seen in server.seen[before:]] == ["new and fine"]
    assert job.records[0]["prompt"] == "new and fine"


def test_the_same_round_again_writes_the_same(job):
    job.run()
    before = {path.name: path.read_bytes() for path in job.out.iterdir() if path.suffix == ".jsonl"}
    job.run()
    assert before == {path.name: path.read_bytes() for path in job.out.iterdir() if path.suffix == ".jsonl"}
    assert len(before) == 3


def test_a_server_that_dies_half_way_costs_nothing_twice(job, server):
    server.dies_after = 2
    with pytest.raises(UserError, match=r"2 of 5 answers of judge are in made/cache.sqlite; the same command goes on"):
        job.run()
    assert not (job.out / "records.jsonl").exists()
    server.dies_after = None
    before = len(server.seen)
    report = job.run()
    assert len(server.seen) - before == 3 + 1
    assert (report["annotators"]["judge"]["new"], report["annotators"]["judge"]["kept"]) == (4, 2)


@pytest.mark.parametrize("fault", [status(500), status(429, Retry_After="0"), malformed, reset])
def test_faults_that_pass_change_nothing(job, server, fault):
    server.faults += [fault] * 3
    assert job.run()["records"]["total"] == 4


def test_nobody_there(here):
    with ChatServer() as server:
        pass
    with pytest.raises(UserError, match=r"annotators.judge: expected an answer from .* 0 of 5 answers of judge"):
        Job(here, server.url).run("annotators.judge.retries=1")


def test_a_label_that_is_wrong_names_the_line_and_changes_nothing(job):
    job.run()
    job.fill(lambda row: "goood")
    before = (job.out / "queue.jsonl").read_bytes()
    with pytest.raises(DataError, match=r"made/queue.jsonl:1: expected one of good, bad .* Did you mean `good`\?"):
        job.run()
    assert (job.out / "queue.jsonl").read_bytes() == before


def test_what_people_fill_in_while_annotators_are_asked_is_kept(job, server):
    job.run()
    write_rows("in.jsonl", [{"prompt": text} for text in ("new and fine", *TEXTS)])

    def answer(body):
        job.fill(lambda row: "good")
        return classing(body)

    server.answer = answer
    report = job.run()
    assert report["records"]["semi_automatic"] == 1
    assert job.queue == []


def test_a_label_of_a_person_is_never_replaced(job, server):
    job.run()
    job.fill(lambda row: "bad")
    job.run()
    server.answer = lambda body: "Label: good"
    job.run("prompt.template='Another question: {prompt}'")
    assert job.records[-1] | {"where": ""} == {
        "prompt": "so so", "response": "bad", "label_source": "semi_automatic", "annotators": ["queue"],
        "id": job.records[-1]["id"], "where": ""}  # fmt: skip
    write_rows(job.out / "queue.jsonl", [{"prompt": "so so", "label": "good"}])
    with pytest.raises(DataError, match=r"queue.jsonl:1: expected the label this item has in .*queue_labels.jsonl:1"):
        job.run()


def test_an_item_can_be_thrown_out(job):
    job.run()
    write_rows(job.out / "queue.jsonl", [row | {"discard": True} for row in job.queue])
    report = job.run()
    assert (report["discarded"], report["queue"]["total"], report["records"]["total"]) == (1, 0, 4)
    assert job.run()["discarded"] == 1


def test_an_item_that_left_the_data_keeps_its_label_for_the_day_it_returns(job):
    job.run()
    job.fill(lambda row: "bad")
    job.run()
    write_rows("in.jsonl", [{"prompt": "a fine day"}])
    report = job.run()
    assert (report["records"]["total"], report["queue"]["no_longer_in_data"]) == (1, 1)
    write_rows("in.jsonl", [{"prompt": "so so"}])
    assert job.run()["records"]["semi_automatic"] == 1


def test_files_of_people_are_records_and_are_not_asked_about(here, server):
    job = Job(here, server.url)
    write_rows("people.jsonl", [{"prompt": "a fine day", "label": "bad"}, {"prompt": "elsewhere", "label": "good"}])
    job.tree["annotators"]["people"] = {"kind": "human", "path": "people.jsonl"}
    report = job.run()
    assert report["people"] == {"people": {"labels": 2, "open": 0, "not_in_data": 1}}
    assert report["records"] == {"total": 5, "human": 2, "automatic": 3, "semi_automatic": 0}
    assert (job.records[0]["response"], job.records[0]["label_source"]) == ("bad", "human")
    asked = {user_text(seen["body"]).splitlines()[-3] for seen in server.seen if len(seen["body"]["messages"]) == 1}
    assert asked == set(TEXTS[1:])
    assert report["agreement"] == []


def test_the_overlap_is_asked_too_and_measured(here, server):
    job = Job(here, server.url)
    write_rows("people.jsonl", [{"prompt": text, "label": "good"} for text in TEXTS[:4]])
    job.tree["annotators"]["people"] = {"kind": "human", "path": "people.jsonl"}
    report = job.run("overlap=1")
    (row,) = report["agreement"]
    assert (row["first"], row["second"], row["items"], row["raw"], row["kappa"]) == ("judge", "people", 4, 0.5, 0.0)
    assert row["confusion"] == {"good": {"good": 2}, "bad": {"good": 2}}
    assert report["records"]["human"] == 4


def test_people_who_disagree_are_asked_to_settle_it(here, server):
    job = Job(here, server.url)
    for name, label in (("ann", "good"), ("bob", "bad")):
        write_rows(f"{name}.jsonl", [{"prompt": "a fine day", "label": label}, {"prompt": "foul play", "label": "bad"}])
        job.tree["annotators"][name] = {"kind": "human", "path": f"{name}.jsonl"}
    report = job.run()
    assert report["queue"]["why"]["people_disagree"] == 1
    waiting = next(row for row in job.queue if row["prompt"] == "a fine day")
    assert waiting["why"] == ["ann: good; bob: bad"]
    job.fill(lambda row: "good" if row["prompt"] == "a fine day" else None)
    assert job.run()["queue"]["total"] == 1
    assert job.records[0]["response"] == "good"


def judging(body):
    """Knows the sum, prefers blue by its place, and cannot decide about the sea."""
    text = user_text(body)
    if "sum?" in text:
        return "Four is right.\nLabel: " + ("A" if "Answer A:\nfour" in text else "B")
    return "Label: A"


def test_preferences_are_asked_in_both_orders(here):
    with ChatServer(judging) as server:
        job = preference_job(here, server.url)
        report = job.run()
        assert len(server.seen) == 6
    assert [(r["prompt"], r["chosen"], r["rejected"]) for r in job.records] == [("sum?", "four", "five")]
    assert records_of(job.out / "records.jsonl", "preference") == [PreferenceRecord("sum?", "four", "five")]
    assert report["queue"]["why"] == {"flip": 2}
    assert job.queue[0]["why"][0] == "judge prefers a place: the answer shown first"
    judge = report["annotators"]["judge"]
    assert (judge["pairs"], judge["flips"], judge["first_place_ratio"]) == (3, 2, 5 / 6)
    job.fill(lambda row: "b" if row["prompt"] == "sky?" else "a")
    job.run()
    assert [(r["chosen"], r["label_source"]) for r in job.records] == [
        ("four", "automatic"), ("blue", "semi_automatic"), ("wet", "semi_automatic")]  # fmt: skip


def test_responses_are_the_answers_most_agree_on(here):
    def answer(body):
        return ["It is 4.", "I think 4", "It is 5."][body["seed"]] if "sum" in user_text(body) else f"{body['seed']}"

    with ChatServer(answer) as server:
        job = Job(here, server.url, task="response", labels=[])
        write_rows("in.jsonl", [{"prompt": "sum?"}, {"prompt": "luck?"}])
        job.tree["annotators"]["judge"] |= {"samples": 3, "temperature": 1.0}
        job.tree["uncertainty"] = {"same": "final_answer", "min_agreement": 0.6}
        job.run()
    (record,) = job.records
    assert (record["response"], record["agreement"]) == ("It is 4.", 0.6667)
    assert job.queue[0]["why"] == ["as many votes for another label"]


def test_the_cost_is_counted(here):
    with ChatServer(lambda body: completion("Label: good", prompt_tokens=1000, completion_tokens=10)) as server:
        job = Job(here, server.url)
        job.tree["annotators"]["judge"]["price_per_million"] = {"input": 2.0, "output": 30.0}
        first, second = job.run(), job.run()
    assert first["annotators"]["judge"]["cost_new"] == first["annotators"]["judge"]["cost"] == pytest.approx(0.0115)
    assert second["annotators"]["judge"]["cost_new"] == 0.0
    assert second["annotators"]["judge"]["cost"] == pytest.approx(0.0115)


def test_a_missing_key_is_told_before_any_request(job, server, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    job.tree["annotators"]["second"] = job.tree["annotators"]["judge"] | {"api_key_env": "NO_SUCH_KEY"}
    with pytest.raises(UserError, match=r"annotators.second.api_key_env: .* variable NO_SUCH_KEY, got none"):
        job.run()
    assert server.seen == []


def test_the_key_is_in_no_file(job, server, monkeypatch):
    key = "sk-0123456789-secret"
    monkeypatch.setenv("JUDGE_KEY", key)
    server.answer = lambda body: f"{key} is your key.\nLabel: good"
    job.run("annotators.judge.api_key_env=JUDGE_KEY")
    assert server.seen[0]["headers"]["Authorization"] == f"Bearer {key}"
    files = [path for path in job.out.rglob("*") if path.is_file()]
    assert len(files) >= 6
    assert [path for path in files if key.encode() in path.read_bytes()] == []


def test_an_annotator_of_a_plugin(here):
    @ANNOTATORS.register("always_good")
    class AlwaysGood:
        """Finds everything good."""

        def __init__(self, config, task, labels, *, where):
            pass

        def read(self):
            return {}, 3

    try:
        job = Job(here, "http://127.0.0.1:1/v1", annotators={"plugin": {"kind": "always_good"}})
        assert job.run()["people"] == {"plugin": {"labels": 0, "open": 3, "not_in_data": 0}}
        assert job.queue[0]["why"] == ["no automatic annotator"]
    finally:
        ANNOTATORS._entries.pop("always_good")


def test_a_folder_that_cannot_be_made(job):
    job.folder.joinpath("file").write_text("")
    with pytest.raises(UserError, match=r"out: expected a folder that can be written, got file/made"):
        job.run("out=file/made")


def _run(folder, url, barrier):
    import os

    os.chdir(folder)
    barrier.wait()
    Job(folder, url).run()


def test_two_processes_at_once(here, server):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    both = [context.Process(target=_run, args=(here, server.url, barrier)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
    assert [process.exitcode for process in both] == [0, 0]
    job = Job(here, server.url)
    assert len(job.records) == 4 and len(job.queue) == 1
    before = len(server.seen)
    job.run()
    assert len(server.seen) == before


def test_the_overlap_is_a_stable_share():
    names = [f"{n:016x}" for n in range(4000)]
    chosen = {name for name in names if in_overlap(name, 0.25, 1)}
    assert 900 < len(chosen) < 1100
    assert chosen <= {name for name in names if in_overlap(name, 0.5, 1)}
    assert chosen != {name for name in names if in_overlap(name, 0.25, 2)}
    assert not any(in_overlap(name, 0.0, 1) for name in names)
    assert all(in_overlap(name, 1.0, 1) for name in names)


def test_the_report_is_json_and_a_page(job):
    report = job.run()
    assert json.loads((job.out / "report.json").read_text()) == report
    page = (job.out / "report.md").read_text()
    assert page.startswith("# Labels: task class\n") and "| judge | endpoint | 6 |" in page
    assert read_rows(job.out / "queue_labels.jsonl") == []
    assert threading.active_count() < 50
