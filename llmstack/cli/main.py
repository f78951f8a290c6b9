"""The command ``llmstack``: reads the arguments, imports the one command that was asked for, decides the exit status.

Exit status: 0 done; 2 the user's input is wrong (message on stderr, no traceback); 1 a fault (one line on stderr, the
traceback in the run's log); 130 or 143 interrupted after a checkpoint was saved.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from llmstack.cli import arguments, data_commands, tokenizer_commands
from llmstack.cli.faults import INTERRUPTED, report
from llmstack.errors import Interrupted

if TYPE_CHECKING:
    from llmstack.engine.stop import Interrupts

_LISTS = (
    "stages",
    "models",
    "providers",
    "rewards",
    "advantages",
    "aggregations",
    "sources",
    "cleaners",
    "annotators",
    "preference_losses",
    "optimizers",
    "schedules",
    "recipes",
)
_DTYPES = ("float32", "float16", "bfloat16")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: the arguments after the program's name; None takes those of the process, which an interrupt then ends.

    Returns:
        The exit status.
    """
    try:
        args = _parse(list(sys.argv[1:] if argv is None else argv))
    except SystemExit as stop:  # argparse has written its message
        return int(stop.code or 0)
    from llmstack.engine.stop import Interrupts  # after the arguments: help must not wait for a logger

    with Interrupts() as interrupts:  # before a command imports what starts threads
        status = _run(args, interrupts)
        if status in INTERRUPTED and argv is None:
            _end_process(status)
        return status


def _run(args: argparse.Namespace, interrupts: Interrupts) -> int:
    try:
        command = importlib.import_module(f"llmstack.cli.{args.module}")
        status = int(command.run(args) or 0)
        sys.stdout.flush()  # a reader that went away shows here, not after this function
        return status
    except BaseException as error:  # noqa: BLE001 - the one place that turns an error into an exit status
        if interrupts.raised and not isinstance(error, Interrupted):
            error = KeyboardInterrupt()  # MindSpore makes another error of one that meets its compiler
        return report(error, run_folder=getattr(args, "run_folder", None))


def _end_process(status: int) -> NoReturn:
    """Ends the process without what libraries do at its end: one that was half imported would crash."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _parse(argv: list[str]) -> argparse.Namespace:
    """Parses the arguments; options of a command may stand between the recipe and its ``key=value`` arguments.

    argparse hands out positional arguments at the first gap it meets, so the words it leaves over are put back here.
    """
    if argv[:1] == ["export"] and "--mindformers" in argv:  # takes a recipe, so it is a command of its own
        argv = ["export-mindformers", *(word for word in argv[1:] if word != "--mindformers")]
    parser = _parser()
    args, rest = parser.parse_known_args(argv)
    if hasattr(args, "overrides"):
        words = [*args.overrides, *(text for text in rest if not text.startswith("-"))]
        rest = [text for text in rest if text.startswith("-")]
        if args.recipe is None and words:
            args.recipe, *words = words
        args.overrides = words
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return args


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="llmstack",
        allow_abbrev=False,
        description="Trains language models from raw text to an aligned assistant: one recipe, one command.",
        epilog="`llmstack COMMAND --help` describes a command. LLMSTACK_DEBUG=1 shows tracebacks.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    train = _recipe_command(commands, "train", "run or resume a recipe")
    train.add_argument("--stage", metavar="NAME", help="stop after this stage; the earlier ones it needs run first")
    train.add_argument("--fresh", action="store_true", help="start over; old results are moved aside")
    _recipe_command(commands, "check", "decode and validate a recipe without running it")
    show = _recipe_command(commands, "show", "print the resolved recipe and where each value came from", optional=True)
    form = show.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON: the values and their origins")
    form.add_argument("--schema", action="store_true", help="print the JSON schema of recipe files, for editors")
    arguments.add_plan(_recipe_command(commands, "plan", "work out memory, time and layouts without running anything"))
    listing = _command(commands, "list", "list what a recipe can name")
    listing.add_argument("what", choices=_LISTS, metavar="|".join(_LISTS), help="what to list")
    _add_generate(commands)
    _add_chat(commands)
    _add_eval(commands)
    data_commands.add_data(_command(commands, "data", "look at, prepare, clean and label training data"))
    tokenizer_commands.add_tokenizer(_command(commands, "tokenizer", "learn a tokenizer from text"))
    _add_import(commands)
    _add_export(commands)
    _add_mindformers(commands)
    return parser


def _command(commands: argparse._SubParsersAction, name: str, about: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}.", allow_abbrev=False
    )
    command.set_defaults(module=name.replace("-", "_"))
    return command


def _recipe_command(
    commands: argparse._SubParsersAction, name: str, about: str, *, optional: bool = False
) -> argparse.ArgumentParser:
    command = _command(commands, name, about)
    recipe = "a YAML file, or the name of a shipped recipe"
    override = "change a value, e.g. stages.policy.kl.beta=0.1"
    command.add_argument("recipe", metavar="RECIPE", nargs="?" if optional else None, help=recipe)
    command.add_argument("overrides", metavar="key=value", nargs="*", help=override)
    return command


def _add_generate(commands: argparse._SubParsersAction) -> None:
    arguments.add_generate(_command(commands, "generate", "let a trained model write"))


def _add_chat(commands: argparse._SubParsersAction) -> None:
    arguments.add_chat(_command(commands, "chat", "talk with a trained model"))


def _add_eval(commands: argparse._SubParsersAction) -> None:
    arguments.add_eval(_command(commands, "eval", "measure a trained model"))


def _add_import(commands: argparse._SubParsersAction) -> None:
    command = _command(commands, "import", "bring a model from elsewhere into a folder that recipes can start from")
    command.set_defaults(module="import_model")  # `import` is no name for a module
    command.add_argument(
        "source", metavar="SOURCE", help="a Hugging Face model folder, a .safetensors file or a .gguf file"
    )
    command.add_argument("--out", required=True, metavar="DIR", help="folder to make; must be new or empty")
    command.add_argument("--dtype", choices=_DTYPES, default="float32", help="how weights are stored (default float32)")


def _add_export(commands: argparse._SubParsersAction) -> None:
    command = _command(commands, "export", "rewrite a model folder in another dtype or shard size")
    command.set_defaults(module="export_model")
    command.add_argument("model_dir", metavar="MODEL_DIR", help="a model folder, e.g. runs/quickstart/policy/final")
    command.add_argument("--out", required=True, metavar="DIR", help="folder to make; must be new or empty")
    command.add_argument("--dtype", choices=_DTYPES, help="how weights are stored (default: as they are)")
    command.add_argument(
        "--max-shard-size",
        type=arguments.num_bytes,
        default="5GB",
        metavar="SIZE",
        help="largest file, e.g. 500MB (default 5GB)",
    )
    command.add_argument(
        "--mindformers", action="store_true", help="with RECIPE --stage NAME instead: the same as export-mindformers"
    )


def _add_mindformers(commands: argparse._SubParsersAction) -> None:
    export = _recipe_command(commands, "export-mindformers", "hand a stage over to MindFormers' own trainer")
    export.add_argument("--stage", required=True, metavar="NAME", help="a pretrain or sft stage")
    export.add_argument("--out", required=True, metavar="DIR", help="folder to write, new or empty")
    load = _command(commands, "import-mindformers", "make a model folder of a checkpoint of MindFormers' trainer")
    load.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="a safetensors file, or a folder of checkpoints or of a run"
    )
    load.add_argument("--like", required=True, metavar="MODEL_DIR", help="a folder with its config.json and tokenizer")
    load.add_argument("--out", required=True, metavar="DIR", help="folder to write, new or empty")
    attention = "it was trained with use_contiguous_weight_layout_attention: True"
    load.add_argument("--contiguous-attention", action="store_true", help=attention)
    mlp = "it was trained with use_interleaved_weight_layout_mlp: False"
    load.add_argument("--contiguous-mlp", action="store_true", help=mlp)
