"""Records that a Python function of the user's makes."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmstack.data.field_map import FieldMap
from llmstack.data.fields import FieldRow
from llmstack.data.kinds import RowReader
from llmstack.data.records import Record
from llmstack.errors import DataError, UserError
from llmstack.plugins import load_function, raised_at

if TYPE_CHECKING:
    from llmstack.config.data import CallableConfig


class CallableSource:
    """What a function yields: records, or mappings that are rows of one record kind.

    Args:
        config: names the function and its arguments.
        seed: not used; a function that draws numbers takes a seed among its arguments.

    Raises:
        UserError: the function cannot be imported.
    """

    def __init__(self, config: CallableConfig, *, seed: int) -> None:
        self._config, self._function = config, load_function(config.function)
        self._reader = None if config.record is None else RowReader(config.record, FieldMap(config.fields))

    def records(self) -> Iterator[Record]:
        """Calls the function and hands out what it yields, one after the other.

        Yields:
            Records; those without a place have ``function:number`` as theirs, numbers from 1.

        Raises:
            DataError: the function fails, or yields something else or nothing; the message names it.
        """
        name, number = self._config.function, 0
        items = self._items()
        while True:
            where = f"{name}:{number + 1}"
            try:
                item = next(items)
            except StopIteration:
                break
            except UserError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the user's function raises is the user's to mend
                raise DataError(
                    f"{where}: expected records, got {type(error).__name__} ({error}) {raised_at(error)}from the "
                    "function. Mend it, or its arguments."
                ) from error
            yield self._record(item, where)
            number += 1
        if not number:
            raise DataError(f"{name}: expected at least one record, got an empty data set. Check its arguments.")

    def _items(self) -> Iterator[Any]:
        yield from self._function(**self._config.arguments)

    def _record(self, item: Any, where: str) -> Record:
        if isinstance(item, Record):
            return item if item.where else replace(item, where=where)
        if self._reader is not None and isinstance(item, Mapping):
            return self._reader.record(FieldRow(item, where, self._reader.fields))
        wanted = "a record or a mapping" if self._reader else "a record (because `record` is null)"
        raise DataError(f"{where}: expected {wanted}, got {type(item).__name__}. Let the function yield that.")

    def fingerprint(self) -> str:
        """Hash of the function's name, its whole source file and its arguments."""
        try:
            source = Path(inspect.getfile(inspect.unwrap(self._function))).read_bytes()
        except (TypeError, OSError) as error:
            raise DataError(
                f"{self._config.function}: expected a function of a source file, by which its changes are noticed, "
                f"got one without ({error}). Wrap it into a function of a module of yours."
            ) from error
        arguments = json.dumps(self._config.arguments, sort_keys=True)
        return hashlib.sha256(f"{self._config.function}\0{arguments}\0".encode() + source).hexdigest()
