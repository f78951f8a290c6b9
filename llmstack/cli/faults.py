"""What the user sees when a command fails, and the exit status that says which kind of failure it was."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from llmstack.errors import ConfigError, Interrupted, LlmstackError, Terminated, UserError

FAULT, USER_ERROR, SIGINT_STATUS, SIGPIPE_STATUS = 1, 2, 130, 141
INTERRUPTED = (SIGINT_STATUS, Terminated.exit_status)
_LOG = "fault.log"


def report(error: BaseException, *, run_folder: Path | None = None) -> int:
    """Writes an error to stderr in the form that fits its kind.

    Args:
        error: what the command raised.
        run_folder: where a fault's traceback is kept; None when the command has no run folder yet.

    Returns:
        The exit status.
    """
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAULT
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains again when it flushes
        return SIGPIPE_STATUS
    if os.environ.get("LLMSTACK_DEBUG") == "1":
        traceback.print_exception(error)
    if isinstance(error, ConfigError):
        count = len(error.problems)
        lines = "".join(f"\n  {problem}" for problem in error.problems)
        _say(f"the recipe has {count} problem{'s' if count > 1 else ''}:{lines}")
        return USER_ERROR
    if isinstance(error, UserError):
        _say(str(error))
        return USER_ERROR
    if isinstance(error, Interrupted):
        _say(str(error))
        return error.exit_status
    if isinstance(error, KeyboardInterrupt):
        _say("interrupted")
        return error.exit_status if isinstance(error, Terminated) else SIGINT_STATUS
    if isinstance(error, LlmstackError):
        _say(str(error))
        return FAULT
    _say(f"fault in {_raised_at(error)}: {_first_line(error)} ({_keep_traceback(error, run_folder)})")
    return FAULT


def _say(text: str) -> None:
    sys.stderr.write(f"llmstack: {text}\n")


def _first_line(error: BaseException) -> str:
    text = " ".join(str(error).strip().partition("\n")[0].split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _raised_at(error: BaseException) -> str:
    """File, line and function of the innermost frame that belongs to llmstack, else of the innermost of all."""
    frames = traceback.extract_tb(error.__traceback__)
    package = str(Path(__file__).resolve().parent.parent)
    own = [frame for frame in frames if frame.filename.startswith(package)]
    frame = (own or frames)[-1] if frames else None
    return f"{frame.filename}:{frame.lineno} ({frame.name})" if frame else "an unknown place"


def _keep_traceback(error: BaseException, run_folder: Path | None) -> str:
    """Appends the traceback to the run's log, when there is one that can be written."""
    if run_folder is not None and run_folder.is_dir():
        log = run_folder / _LOG
        try:
            with log.open("a", encoding="utf-8") as stream:
                stream.writelines(traceback.format_exception(error))
        except OSError as unwritable:
            return f"the traceback could not be written to {log}: {unwritable.strerror}"
        return f"traceback in {log}"
    return "LLMSTACK_DEBUG=1 shows the traceback"
