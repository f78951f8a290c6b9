"""The parts of MindFormers that are used, imported without a word: the only module that imports the library.

Left to itself the import makes ``./output`` in the working directory, logs to stdout and takes over
``warnings.showwarning``. Importing this module costs the import of MindFormers, several seconds.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from llmstack.runtime import device


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Keeps what MindFormers says and does at its import away from the user.

    Its log goes to files under the user's own temporary folder; the environment says so to the end of the process,
    because MindFormers asks again with every line it logs. Set ``LOG_MF_PATH`` to choose another folder.
    """
    folder = Path(tempfile.gettempdir()) / f"llmstack-{os.getuid()}" / "mindformers"
    os.environ.setdefault("LOCAL_DEFAULT_PATH", str(folder))
    log_folder = os.environ.setdefault("LOG_MF_PATH", str(folder / "log"))
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    device.quiet_environment()
    show_warning = warnings.showwarning
    try:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            yield
    finally:
        warnings.showwarning = show_warning
    logger = logging.getLogger(f"mindformers{os.path.expanduser(log_folder)}")
    for handler in [*logger.handlers]:
        # it took the stream of a moment ago for stdout
        if getattr(handler, "stream", None) is said:
            logger.removeHandler(handler)


with quietly():
    from mindformers.core.context.build_context import MFContextOperator
    from mindformers.core.lr import build_lr
    from mindformers.core.optim import build_optim
    from mindformers.parallel_core.training_graph.base_models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from mindformers.parallel_core.training_graph.base_models.gpt.gpt_model import GPTModel
    from mindformers.parallel_core.training_graph.transformer.attention import SelfAttention
    from mindformers.parallel_core.training_graph.transformer.norm import get_norm_cls
    from mindformers.parallel_core.training_graph.transformer.transformer_block import TransformerBlockSubmodules
    from mindformers.parallel_core.transformer_config import TransformerConfig
    from mindformers.parallel_core.utils.init_method import init_method_zero
    from mindformers.tools.register import MindFormerConfig


@contextlib.contextmanager
def mcore_mode() -> Iterator[None]:
    """Lets mcore networks be built: without a context of its own MindFormers takes every model for its older kind.

    The context goes away again with the environment variables it sets, so that a plugin can still make its own.
    """
    if MFContextOperator.get_mf_ctx_instance() is not None:
        yield
        return
    environment = dict(os.environ)
    try:
        MFContextOperator(MindFormerConfig(use_legacy=False))
        yield
    finally:
        MFContextOperator.reset_instance()
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update({name: value for name, value in environment.items() if os.environ.get(name) != value})


__all__ = [
    "GPTModel",
    "SelfAttention",
    "TransformerBlockSubmodules",
    "TransformerConfig",
    "build_lr",
    "build_optim",
    "get_gpt_layer_local_spec",
    "get_norm_cls",
    "init_method_zero",
    "mcore_mode",
]
