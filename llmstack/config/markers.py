"""Marks on configuration fields that need the whole recipe, or the disk, to be checked.

Decoding looks at one value at a time and never at the disk, so a field only says what it is; the recipe's checks find
the marked fields, in a user's own stages too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

Produces = Literal["language_model", "reward_model"]


@dataclass(frozen=True)
class ModelRef:
    """The name of an earlier stage, or a model folder.

    Attributes:
        accepts: the kinds of model that fit.
    """

    accepts: tuple[Produces, ...]


@dataclass(frozen=True)
class PathRef:
    """A path on this machine that must be there before a run starts.

    Attributes:
        kind: files: a file or a glob that matches some; folder: a folder; token_files: what is in front of .bin and
            .idx.
        unless: a word that is not a path.
    """

    kind: Literal["files", "folder", "token_files"]
    unless: str = ""


@dataclass(frozen=True)
class CodeRef:
    """``package.module:function``, to be imported when the recipe's plugins are."""


LanguageModelRef: TypeAlias = Annotated[str, ModelRef(("language_model",))]
"""A stage that makes a language model, or the folder of one."""

RewardModelRef: TypeAlias = Annotated[str, ModelRef(("reward_model",))]
"""A stage that makes a reward model, or the folder of one."""

AnyModelRef: TypeAlias = Annotated[str, ModelRef(("language_model", "reward_model"))]
"""A stage that makes either, or the folder of one."""

Files: TypeAlias = Annotated[str, PathRef("files")]
"""A file or a glob, relative to the working directory."""

Folder: TypeAlias = Annotated[str, PathRef("folder")]
"""A folder, relative to the working directory."""

TokenFiles: TypeAlias = Annotated[str, PathRef("token_files")]
"""What the names of a .bin and an .idx file begin with, relative to the working directory."""

FunctionRef: TypeAlias = Annotated[str, CodeRef()]
"""A function of a module beside the recipe or an installed one."""
