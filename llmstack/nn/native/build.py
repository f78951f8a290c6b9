"""Compiles the CPU kernels once per machine and remembers the library.

The library's name carries a hash of the sources, the compiler's version, its flags and the processor's features, so
a changed source, another compiler or another kind of machine sharing the cache never meets a wrong library.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from llmstack.config.paths import cache_folder

_SOURCES = Path(__file__).parent
# No -ffast-math: a NaN must stay a NaN, since a training step that has one is skipped and counted.
_FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-std=c++17", "-shared", "-fPIC")
_log = logging.getLogger("llmstack")


def _processor_features() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.lower().startswith(("flags", "features"))), platform.processor())


def _compiler() -> str | None:
    named = os.environ.get("CXX")
    return shutil.which(named) if named else shutil.which("g++") or shutil.which("clang++")


def _key(compiler: str) -> str:
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256()
    for text in (version, " ".join(_FLAGS), platform.machine(), _processor_features()):
        digest.update(text.encode())
    for source in sorted(_SOURCES.glob("*.cc")) + sorted(_SOURCES.glob("*.h")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _compile(compiler: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(suffix=".so", dir=target.parent)
    os.close(handle)
    sources = [str(source) for source in sorted(_SOURCES.glob("*.cc"))]
    try:
        subprocess.run([compiler, *_FLAGS, *sources, "-o", beside], capture_output=True, text=True, check=True)
        os.replace(beside, target)
    finally:
        Path(beside).unlink(missing_ok=True)


@functools.cache
def library() -> str | None:
    """Path of the compiled kernels, compiling them if need be; None when this machine cannot.

    ``LLMSTACK_NATIVE=0`` in the environment turns them off.
    """
    if os.environ.get("LLMSTACK_NATIVE") == "0":
        return None
    compiler = _compiler()
    if compiler is None:
        _log.warning("no C++ compiler found (g++ or clang++): using the slower composite operators")
        return None
    try:
        target = cache_folder() / f"kernels-{_key(compiler)}.so"
        if not target.exists():
            _log.info("compiling the CPU kernels into %s (once)", target)
            _compile(compiler, target)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        _log.warning("the CPU kernels could not be compiled, using the slower composite operators: %s", reason.strip())
        return None
    return str(target)
