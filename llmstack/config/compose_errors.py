"""Turns what Hydra, OmegaConf and YAML raise while a recipe is composed into a ConfigError with file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from llmstack.config.paths import display
from llmstack.config.provenance import COMMAND_LINE, Origins
from llmstack.config.yamlfiles import child, read_node, scalars, yaml_problem
from llmstack.errors import ConfigError, Problem, UserError
from llmstack.registry import did_you_mean


@contextmanager
def readable_errors(recipe: Path, overrides: Sequence[Override], roots: Sequence[Path]) -> Iterator[None]:
    """Rewords errors of the block it surrounds.

    Args:
        recipe: absolute path of the recipe being composed.
        overrides: the parsed command line.
        roots: the folders that hold groups.

    Raises:
        ConfigError: in place of what the block raised.
    """
    try:
        yield
    except UserError:
        raise
    except yaml.YAMLError as error:
        raise ConfigError([yaml_problem(error, recipe)]) from error
    except MissingConfigException as error:
        raise ConfigError([_missing_option(error, overrides, roots)]) from error
    except RecursionError as error:
        message = "expected groups that end somewhere, got defaults lists that include each other. Remove one of them."
        raise ConfigError([Problem("defaults", message, _line_of_defaults(recipe))]) from error
    except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
        raise ConfigError([_cannot_compose(error, recipe, overrides)]) from error


def _missing_option(error: MissingConfigException, overrides: Sequence[Override], roots: Sequence[Path]) -> Problem:
    """A group has no such option: says which it has, and where the choice was made."""
    group, _, option = (error.missing_cfg_file or "").rpartition("/")
    options = list(error.options or ())
    chosen = next((item for item in overrides if item.key_or_group == group and item.value() == option), None)
    if chosen:
        written, where = f"{group}@{chosen.package}" if chosen.package else group, COMMAND_LINE
    else:
        written, where = _choice(str(error), option, roots)
    fix = did_you_mean(option, options) or "Choose one of these, or add the file to a folder of hydra.searchpath."
    known = f"an option of `{group}` ({', '.join(options)})" if options else "the file of a configuration group"
    return Problem(written or group or "defaults", f"expected {known}, got {option!r}. {fix}", where)


def _choice(message: str, option: str, roots: Sequence[Path]) -> tuple[str, str]:
    """The entry of the defaults list that Hydra's message is about: ``group@package`` and ``file:line``."""
    named = re.match(r"In '([^']+)'", message)
    files = (root / f"{named.group(1)}.yaml" for root in roots) if named else ()
    file = next((candidate for candidate in files if candidate.is_file()), None)
    if file is None:
        return "", ""
    words = list(scalars(child(read_node(file), "defaults") or read_node(file)))
    places = [i for i, word in enumerate(words) if word.value.rpartition("/")[2].removesuffix(".yaml") == option]
    before = words[places[0] - 1].value if places and places[0] else ""
    return before.lstrip("/") if "@" in before else "", _line_of_defaults(file, option)


def _line_of_defaults(file: Path, option: str | None = None) -> str:
    """``file:line`` of a file's defaults list, or of the entry that picks an option."""
    defaults = child(read_node(file), "defaults")
    if defaults is None:
        return display(file)
    found = [item for item in scalars(defaults) if item.value.rpartition("/")[2].removesuffix(".yaml") == option]
    return f"{display(file)}:{(found[0] if found else defaults).start_mark.line + 1}"


def _cannot_compose(error: Exception, recipe: Path, overrides: Sequence[Override]) -> Problem:
    """Anything else that is refused, in the library's own words on one line."""
    cause = error.__cause__
    texts = [str(error), str(cause)] if isinstance(cause, OmegaConfBaseException) else [str(error)]
    reason = ": ".join(" ".join(text.partition("full_key:")[0].split()) for text in texts if text.strip())
    message = f"expected parts that fit together, got a recipe Hydra cannot compose: {reason}"
    culprit = next((item for item in overrides if _mentions(reason, item.key_or_group)), None)
    if culprit is not None:
        return Problem(culprit.key_or_group, message, COMMAND_LINE)
    key = str(getattr(error, "full_key", None) or getattr(cause, "full_key", None) or "")
    origins = Origins()
    origins.add_file(recipe)
    if origins.find(key):
        return Problem(key, message, origins.find(key))
    is_about_defaults = "default" in reason.lower()
    return (
        Problem("defaults", message, _line_of_defaults(recipe))
        if is_about_defaults
        else Problem(display(recipe), message)
    )


def _mentions(reason: str, key: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(key)}(?![\w.])", reason) is not None
