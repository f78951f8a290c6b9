"""One logger for the whole program: short lines on stderr, full ones in the run's log file."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from tqdm import tqdm  # type: ignore[import-untyped]

from llmstack.errors import RunFolderError

ROOT = "llmstack"


def get_logger(name: str = "") -> logging.Logger:
    """Gives the logger of a part of llmstack.

    Args:
        name: the part, e.g. ``engine``; empty gives the root of all of them.

    Returns:
        A logger under ``llmstack``.
    """
    return logging.getLogger(f"{ROOT}.{name}" if name else ROOT)


class _StderrHandler(logging.Handler):
    """Writes above a progress bar that may be drawn at the bottom of the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record."""
        try:
            tqdm.write(self.format(record), file=sys.stderr)
            sys.stderr.flush()
        except (OSError, ValueError):
            self.handleError(record)


def setup_logging(log_file: Path | None = None, *, level: int = logging.INFO) -> None:
    """Sends llmstack's log to stderr and, when given, to a file; calling it again replaces both.

    Args:
        log_file: lines are appended to it, with date and level, in every detail; None leaves it out.
        level: least level shown on stderr.

    Raises:
        RunFolderError: the file cannot be written.
    """
    root = get_logger()
    close_logging()
    stderr = _StderrHandler(level)
    stderr.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    handlers: list[logging.Handler] = [stderr]
    if log_file is not None:
        try:
            to_file = logging.FileHandler(log_file, encoding="utf-8")
        except OSError as error:
            raise RunFolderError(
                f"{log_file}: expected a log file that can be written, got {error.strerror}. Choose another run_dir."
            ) from error
        to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        handlers.append(to_file)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(min(level, logging.DEBUG if log_file is not None else level))
    root.propagate = False


def close_logging() -> None:
    """Takes the handlers away and closes the file; later lines go where Python's root logger sends them."""
    root = get_logger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    root.propagate = True
