from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import llmstack

PROGRAM = """
import sys, warnings
before = warnings.showwarning
import llmstack.integrations.mindformers, llmstack.registry
assert "mindformers" not in sys.modules and "mindspore" not in sys.modules
from llmstack.integrations.mindformers import library
assert "mindformers" in sys.modules
assert warnings.showwarning is before
from mindformers.tools.logger import logger
logger.warning("for the file alone")
"""


def test_the_import_says_nothing_and_leaves_nothing(tmp_path):
    here, logs = tmp_path / "here", tmp_path / "logs"
    here.mkdir()
    root = Path(llmstack.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(root), "LOG_MF_PATH": str(logs)},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert list(here.iterdir()) == []
    written = "".join(path.read_text(encoding="utf-8") for path in logs.rglob("*.log"))
    assert "for the file alone" in written


def test_only_this_module_imports_the_library():
    package = Path(llmstack.__file__).parent
    importers = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "mindformers" for name in names):
                importers.add(path.relative_to(package).as_posix())
    assert importers == {"integrations/mindformers/library.py"}


def test_the_context_for_building_goes_away_again():
    from llmstack.integrations.mindformers import library

    before = dict(os.environ)
    with library.mcore_mode():
        assert library.MFContextOperator.get_mf_ctx_instance().get_context("use_legacy") is False
    assert library.MFContextOperator.get_mf_ctx_instance() is None
    assert dict(os.environ) == before


def test_a_context_somebody_made_before_stays():
    from llmstack.integrations.mindformers import library

    before = dict(os.environ)
    made = library.MFContextOperator(library.MindFormerConfig(use_legacy=False))
    try:
        with library.mcore_mode():
            pass
        assert library.MFContextOperator.get_mf_ctx_instance() is made
    finally:
        library.MFContextOperator.reset_instance()
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
