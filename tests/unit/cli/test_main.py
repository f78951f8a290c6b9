from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest

from llmstack.cli.main import main
from llmstack.errors import Interrupted, RunHalted, Terminated, UserError

COMMANDS = (
    "train",
    "check",
    "show",
    "plan",
    "list",
    "generate",
    "chat",
    "eval",
    "import",
    "export",
    "data",
    "tokenizer",
)


@pytest.fixture
def command(monkeypatch):
    """Puts a function in the place of a command's module and gives what it was called with."""

    def put(name: str, run) -> None:
        monkeypatch.setitem(sys.modules, f"llmstack.cli.{name}", types.SimpleNamespace(run=run))

    return put


def run_main(argv: list[str]) -> types.SimpleNamespace:
    """Runs the command line in a process of its own."""
    watched = ("mindspore", "pydantic", "hydra", "yaml", "numpy")
    code = (
        f"import sys; from llmstack.cli.main import main; status = main({argv!r}); "
        f"print([name for name in {watched!r} if name in sys.modules]); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    *out, loaded = done.stdout.splitlines()
    return types.SimpleNamespace(status=done.returncode, out="\n".join(out), err=done.stderr, loaded=loaded)


@pytest.mark.parametrize(
    "argv", [["--help"], ["check", "quickstart"], ["show", "quickstart"], ["list", "stages"], ["plan", "quickstart"]]
)
def test_nothing_but_train_and_generate_loads_mindspore(argv):
    done = run_main(argv)
    assert (done.status, done.err) == (0, "")
    assert "mindspore" not in done.loaded


def test_help_names_the_commands_and_imports_no_configuration():
    done = run_main(["-h"])
    assert done.loaded == "[]"
    assert all(f"\n    {name}" in done.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name, capsys):
    assert main([name, "--help"]) == 0
    assert f"usage: llmstack {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv",
    [
        ["train", "r", "a=1", "b=2", "--stage", "sft", "--fresh"],
        ["train", "--fresh", "--stage=sft", "r", "a=1", "b=2"],
        ["train", "r", "--fresh", "a=1", "--stage", "sft", "b=2"],
        ["train", "--fresh", "r", "a=1", "--stage", "sft", "b=2"],
    ],
)
def test_overrides_may_stand_anywhere(command, argv):
    seen = []
    command("train", lambda args: seen.append(args) or 0)
    assert main(argv) == 0
    assert (seen[0].recipe, seen[0].overrides, seen[0].stage, seen[0].fresh) == ("r", ["a=1", "b=2"], "sft", True)


def test_a_deletion_is_an_override(command):
    seen = []
    command("train", lambda args: seen.append(args.overrides) or 0)
    assert main(["train", "r", "~stages.rm", "+x=-1"]) == 0
    assert seen == [["~stages.rm", "+x=-1"]]


@pytest.mark.parametrize(
    "argv", [["show", "--json", "r", "a=1"], ["show", "r", "--json", "a=1"], ["show", "r", "a=1", "--json"]]
)
def test_show_takes_its_recipe_before_or_after_options(command, argv):
    seen = []
    command("show", lambda args: seen.append((args.recipe, args.overrides, args.json)) or 0)
    assert main(argv) == 0
    assert seen == [("r", ["a=1"], True)]


def test_generate_has_its_options(command):
    seen = []
    command("generate", lambda args: seen.append(vars(args)) or 0)
    argv = ["generate", "dir", "--prompt", "Hi", "--prompt", "Ho", "--chat", "--temperature", "0"]
    argv += ["--max-new-tokens", "5", "--num-samples", "2", "--seed", "3", "--top-k", "4", "--top-p", "0.5"]
    argv += ["--min-p", "0.1", "--repetition-penalty", "1.5", "--stop", "a", "--stop", "b", "--batch-rows", "7"]
    assert main([*argv, "--system", "S", "--out", "x.jsonl", "--threads", "1"]) == 0
    assert seen == [
        {
            "model_dir": "dir", "prompt": ["Hi", "Ho"], "prompts": None, "chat": True, "system": "S", "field": [],
            "temperature": 0.0, "max_new_tokens": 5, "num_samples": 2, "seed": 3, "top_k": 4, "top_p": 0.5,
            "min_p": 0.1, "repetition_penalty": 1.5, "stop": ["a", "b"], "batch_rows": 7, "out": "x.jsonl",
            "device": "cpu", "threads": 1, "module": "generate",
        }
    ]  # fmt: skip


def test_import_and_export_have_their_options(command):
    seen = []
    for name in ("import_model", "export_model"):
        command(name, lambda args: seen.append(vars(args)) or 0)
    assert main(["import", "m.gguf", "--out", "dir", "--dtype", "bfloat16"]) == 0
    assert main(["import", "m.gguf", "--out", "dir"]) == 0
    assert main(["export", "dir", "--out", "other", "--max-shard-size", "1GB"]) == 0
    assert seen == [
        {"source": "m.gguf", "out": "dir", "dtype": "bfloat16", "module": "import_model"},
        {"source": "m.gguf", "out": "dir", "dtype": "float32", "module": "import_model"},
        {
            "model_dir": "dir", "out": "other", "dtype": None, "max_shard_size": 10**9, "mindformers": False,
            "module": "export_model",
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "COMMAND"),
        (["import", "m.gguf"], "--out"),
        (["import", "m.gguf", "--out", "dir", "--dtype", "int8"], "invalid choice: 'int8'"),
        (["export", "dir"], "--out"),
        (["chek"], "invalid choice: 'chek'"),
        (["train"], "RECIPE"),
        (["train", "r", "--frsh"], "unrecognized arguments: --frsh"),
        (["train", "r", "--fre"], "unrecognized arguments: --fre"),
        (["list", "stage"], "invalid choice: 'stage'"),
        (["list", "stages", "more"], "unrecognized arguments: more"),
        (["show", "r", "--json", "--schema"], "not allowed with"),
        (["generate", "dir"], "--prompt"),
        (["generate", "dir", "--prompt", "x", "--top-p", "0"], "expected a number above 0 and at most 1, got 0"),
        (["generate", "dir", "--prompt", "x", "--top-k", "-1"], "expected a whole number of at least 0, got -1"),
        (["generate", "dir", "--prompt", "x", "--num-samples", "0"], "expected a whole number of at least 1, got 0"),
        (["generate", "dir", "--prompt", "x", "--temperature", "nan"], "expected a number of at least 0, got nan"),
        (["generate", "dir", "--prompt", "x", "--seed", "a"], "expected a whole number of at least 0, got a"),
        (["generate", "dir", "--prompt", "x", "--prompts", "f"], "not allowed with"),
        (["generate", "dir", "--prompt", "x", "--min-p", "2"], "expected a number from 0 to 1, got 2"),
        (["generate", "dir", "--prompt", "x", "--repetition-penalty", "0"], "expected a number above 0, got 0"),
        (["generate", "dir", "--prompts", "x", "--field", "a"], "expected OURS=NAME, got 'a'"),
        (["generate", "dir", "--prompt", "x", "--device", "gpu"], "invalid choice: 'gpu'"),
    ],
)
def test_wrong_arguments_end_with_status_2(argv, words, capsys):
    assert main(argv) == 2
    assert words in capsys.readouterr().err


def fail(error: BaseException):
    def run(args):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (UserError("a.b: expected x, got y. Do z."), 2, "llmstack: a.b: expected x, got y. Do z.\n"),
        (RunHalted("the limit was passed"), 1, "llmstack: the limit was passed\n"),
        (Interrupted(2), 130, f"llmstack: {Interrupted(2)}\n"),
        (Interrupted(15), 143, f"llmstack: {Interrupted(15)}\n"),
        (KeyboardInterrupt(), 130, "llmstack: interrupted\n"),
        (Terminated(), 143, "llmstack: interrupted\n"),
    ],
)
def test_the_exit_status_says_how_it_ended(command, capsys, error, status, words):
    command("train", fail(error))
    assert main(["train", "r"]) == status
    assert capsys.readouterr().err == words


@pytest.mark.parametrize("signum", [2, 15])
def test_an_interrupted_process_ends_without_the_finalisers_of_half_imported_libraries(signum):
    code = f"""
import atexit, os, sys, time, types
from llmstack.cli.main import main
from llmstack.engine.stop import terminable
atexit.register(print, "finalised")
def run(args):
    with terminable():
        os.kill(os.getpid(), {signum})
        try:
            while True: time.sleep(0.01)
        except KeyboardInterrupt:
            raise {"RuntimeError('as MindSpore does')" if signum == 2 else ""}
sys.modules["llmstack.cli.train"] = types.SimpleNamespace(run=run)
sys.argv[1:] = ["train", "r"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signum, "", "llmstack: interrupted\n")


def test_a_fault_says_where_and_keeps_its_traceback_in_the_run_folder(command, capsys, tmp_path):
    def run(args):
        args.run_folder = tmp_path
        raise ZeroDivisionError("by nought")

    command("train", run)
    assert main(["train", "r"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("llmstack: fault in ") and error.count("\n") == 1
    assert "ZeroDivisionError: by nought" in error
    assert "Traceback" in Path(tmp_path, "fault.log").read_text(encoding="utf-8")


def test_a_status_of_the_command_is_passed_on(command):
    command("train", lambda args: 3)
    assert main(["train", "r"]) == 3
    command("train", lambda args: None)
    assert main(["train", "r"]) == 0


def test_a_reader_that_goes_away_is_no_fault():
    code = "import sys; from llmstack.cli.main import main; sys.exit(main(['show', 'quickstart']))"
    command = ["bash", "-c", f'"{sys.executable}" -c "{code}" | head -n 1']
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("name: quickstart")
    assert done.stderr == ""
