"""The example modules of docs/extending.md, taken from the page."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")


def write_examples(folder: Path) -> list[str]:
    """Writes every example of the page into a folder.

    Args:
        folder: an existing folder.

    Returns:
        The names of the modules.
    """
    files = re.findall(r"<!-- file: (\w+)\.py -->\n```python\n(.*?)```", PAGE, flags=re.DOTALL)
    for name, source in files:
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    return [name for name, _ in files]
