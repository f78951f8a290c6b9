"""Loads the Python modules a recipe names under ``plugins``, which register a user's own parts."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from llmstack.errors import UserError
from llmstack.registry import did_you_mean


def load_plugins(modules: Sequence[str], *, folder: Path | None = None) -> None:
    """Imports each module, in order; one that is already loaded is left as it is.

    The recipe's own folder comes first while the plugins are imported, so that a module beside the recipe is the one
    meant, and last afterwards, so that it can never hide an installed package from code that imports later.

    Args:
        modules: dotted module names.
        folder: the recipe's folder; None looks only where Python looks anyway.

    Raises:
        UserError: a module cannot be imported; the message names it and the reason.
    """
    entry = str(folder.resolve()) if folder is not None else None
    if entry is not None:
        sys.path.insert(0, entry)
    try:
        for module in modules:
            _load(module, entry)
    finally:
        if entry is not None:
            sys.path.remove(entry)
            if entry not in sys.path:
                sys.path.append(entry)


def load_function(address: str) -> Callable[..., Any]:
    """Imports a function by its address, of an installed module or one that :func:`load_plugins` has loaded.

    Args:
        address: ``package.module:function``.

    Raises:
        UserError: no such module or function; the message names it and the reason.
    """
    module, colon, name = address.partition(":")
    if not (module and colon and name):
        raise UserError(f"expected package.module:function, got {address!r}. Put a colon before the function's name.")
    if module not in sys.modules:
        try:
            _load(module, None)
        except UserError as error:
            raise UserError(f"{address}: {error} A module beside the recipe must be under `plugins`.") from error
    found = getattr(sys.modules[module], name, None)
    if not callable(found):
        names = sorted(key for key, value in vars(sys.modules[module]).items() if inspect.isfunction(value))
        what = "nothing of that name" if found is None else f"a {type(found).__name__}"
        fix = did_you_mean(name, names) or f"It has {', '.join(names) or 'none'}."
        raise UserError(f"{address}: expected a function {name!r} in {module}, got {what}. {fix}")
    function: Callable[..., Any] = found
    return function


def _load(module: str, entry: str | None) -> None:
    try:
        importlib.import_module(module)
    except UserError:
        raise
    except ModuleNotFoundError as error:
        where = f" beside the recipe ({entry}) or" if entry else ""
        reason = f"no module named {error.name!r} was found{where} among the installed packages"
        raise UserError(
            f"expected an importable module, got {module!r}: {reason}. Check its name or install it."
        ) from error
    except Exception as error:  # noqa: BLE001 - whatever a user's module raises while it is imported is the user's to mend
        raise UserError(
            f"expected an importable module, got {module!r}: it raised {type(error).__name__} ({error}) "
            f"{raised_at(error)}while it was imported. Mend that module."
        ) from error


def raised_at(error: BaseException) -> str:
    """The innermost file and line of an error, as ``at file:line ``; a syntax error names its own."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"at {error.filename}:{error.lineno} "
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno} " if trace is not None else ""
