"""``llmstack chat``: a conversation in the terminal, or through a pipe."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from llmstack.engine.stop import Interrupts, end_at_once
from llmstack.errors import UserError

if TYPE_CHECKING:
    from llmstack.evaluation.conversing import Conversation

HELP = """\
/reset        start a new conversation; the system message stays
/system TEXT  set the system message from here on; without TEXT: remove it
/save FILE    add the conversation to a .jsonl file, as a line with messages
/help         this list
/exit         end (Ctrl-D too); Ctrl-C stops an answer
"""


def run(args: argparse.Namespace) -> int:
    """Reads turns line by line and prints the answers as they are written.

    Answers go to stdout, remarks about them to stderr.

    Args:
        args: the options of :func:`llmstack.cli.arguments.add_chat`.

    Returns:
        0, when the input ends or ``/exit`` is typed.

    Raises:
        UserError: no model folder, a model that does not write or has no chat template, or an option out of range.
    """
    with Interrupts.given_to(end_at_once):
        chat = _begin(args)
    presses = _Presses()
    with Interrupts.given_to(presses.note):
        for line in _lines(presses):
            if line.startswith("/"):
                word, _, rest = line[1:].partition(" ")
                if word == "exit":
                    break
                _command(chat, word, rest.strip())
            elif line.strip():
                _answer(chat, line.strip(), presses)
    return 0


class _Presses:
    """Ctrl-C as a question that is asked between two calls of a graph."""

    def __init__(self) -> None:
        self._pressed = False

    def note(self, _: int) -> None:
        self._pressed = True

    def came(self) -> bool:
        """Whether Ctrl-C was pressed since this was last asked."""
        pressed, self._pressed = self._pressed, False
        return pressed


def _begin(args: argparse.Namespace) -> Conversation:
    from llmstack.runtime.device import setup

    setup(args.device, args.threads)
    from llmstack.evaluation.answers import AnswerOptions
    from llmstack.evaluation.conversing import Conversation
    from llmstack.evaluation.loading import load_language_model
    from llmstack.generation.rules import SamplingRules

    options = AnswerOptions(
        max_new_tokens=args.max_new_tokens,
        temperature=args.temperature,
        seed=args.seed,
        rules=SamplingRules(args.repetition_penalty, args.top_k, args.top_p, args.min_p),
    )
    chat = Conversation(load_language_model(args.model_dir), options, system=args.system)
    _be_tolerant()
    if sys.stdin.isatty():
        _remark(f"{args.model_dir}: {chat.context} tokens of context. /help lists the commands.")
    return chat


def _command(chat: Conversation, word: str, rest: str) -> None:
    commands: dict[str, Callable[[Conversation, str], None]] = {
        "reset": lambda chat, _: chat.reset(),
        "system": _set_system,
        "save": _save,
        "help": lambda *_: _print(HELP),
    }
    if word not in commands:
        _remark(f"/{word}: expected one of /{', /'.join(commands)}, /exit. Begin with a space to say it.")
        return
    commands[word](chat, rest)


def _set_system(chat: Conversation, text: str) -> None:
    chat.system = text or None


def _save(chat: Conversation, name: str) -> None:
    from llmstack.evaluation.questions import conversation

    if not name or not chat.turns:
        _remark(f"/save: expected {'something said before' if name else 'the name of a file'}, got nothing.")
        return
    line = json.dumps(conversation(chat.messages), ensure_ascii=False)
    try:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    except OSError as error:
        _remark(f"/save: expected a file that can be written, got {name} ({error.strerror}). Name another one.")
    else:
        _remark(f"{len(chat.messages)} messages added to {name}")


def _answer(chat: Conversation, text: str, presses: _Presses) -> None:
    try:
        for piece in chat.ask(text, stopped=presses.came):
            _print(piece)
    except UserError as error:
        _remark(str(error))
        return
    _print("\n")
    if chat.ending == "stopped":
        _remark("stopped")
    elif chat.ending == "too_long":
        _remark(f"cut off at {chat.options.max_new_tokens} tokens (--max-new-tokens)")
    elif chat.ending == "context_full":
        _remark(f"context is full: {chat.num_tokens} of {chat.context} tokens. /reset starts a new conversation.")


def _lines(presses: _Presses) -> Iterator[str]:
    """What the user types, line by line; from a pipe, what it holds."""
    interactive = sys.stdin.isatty()
    if interactive:
        with contextlib.suppress(ImportError):  # line editing and a history, where Python has them
            import readline  # noqa: F401
    while True:
        try:
            with Interrupts.raising():
                if presses.came():
                    raise KeyboardInterrupt
                line = input("> ") if interactive else sys.stdin.readline()
        except EOFError:
            _print("\n")
            return
        except KeyboardInterrupt:
            if not interactive:
                raise
            _print("\n")
            _remark("/exit or Ctrl-D ends")
            continue
        if not interactive and not line:
            return
        yield line.removesuffix("\n")


def _be_tolerant() -> None:
    """Bytes that are no text are for :class:`Conversation` to refuse; what a terminal cannot show becomes ``?``."""
    for stream, errors in ((sys.stdin, "surrogateescape"), (sys.stdout, "replace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _remark(text: str) -> None:
    sys.stderr.write(f"[{text}]\n")
    sys.stderr.flush()
