"""A built package carries the recipes and groups, and works far from the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.source import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """What a wheel would hold, built from a copy so that the checkout stays clean."""
    pytest.importorskip("setuptools")
    source = tmp_path_factory.mktemp("source")
    for name in ("llmstack", "configs", "recipes"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "_resources"))
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md"):
        shutil.copy(ROOT / name, source / name)
    target = tmp_path_factory.mktemp("built")
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(target)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)
    return target


def llmstack(built: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from llmstack.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(built)},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_only_one_package_is_installed(built):
    assert [path.name for path in built.iterdir()] == ["llmstack"]


@pytest.mark.parametrize("name", ["configs", "recipes"])
def test_every_resource_is_inside_the_package(built, name):
    wanted = sorted(path.relative_to(ROOT) for path in (ROOT / name).rglob("*.yaml"))
    resources = built / "llmstack" / "_resources"
    assert wanted == sorted(path.relative_to(resources) for path in (resources / name).rglob("*.yaml"))


def test_files_that_are_not_python_are_inside_the_package(built):
    wanted = {
        path.relative_to(ROOT) for path in (ROOT / "llmstack").rglob("*") if path.suffix in (".cc", ".h", ".jinja")
    }
    assert {path for path in wanted if not (built / path).is_file()} == set()


def test_the_command_works_outside_the_repository(built, tmp_path):
    done = llmstack(built, tmp_path, "check", "quickstart")
    assert (done.returncode, done.stderr) == (0, "")
    assert str(built) in done.stdout
    assert "quickstart" in llmstack(built, tmp_path, "list", "recipes").stdout
    assert list(tmp_path.iterdir()) == []
