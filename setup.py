"""Packs ``configs/`` and ``recipes/``, which stay at the top of the repository, inside the package when it is built."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

RESOURCES = ("configs", "recipes")


class BuildWithResources(build_py):
    """Copies the resource folders to ``llmstack/_resources``; an editable install finds them in the checkout."""

    def run(self) -> None:
        """Builds the modules, then the resources."""
        super().run()
        if self.editable_mode:
            return
        for name in RESOURCES:
            target = Path(self.build_lib, "llmstack", "_resources", name)
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(name, target)


setup(cmdclass={"build_py": BuildWithResources})
