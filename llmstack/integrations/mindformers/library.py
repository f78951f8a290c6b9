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
from typing import TextIO

from llmstack.runtime import device


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Keeps what MindFormers says and does at its import away from the user.

    Its log goes to files under the user's own temporary folder; the environment says so to the end of the process,
    because MindFormers asks again with every line it logs. Set ``LOG_MF_PATH`` to choose another folder.
    """
    folder = Path(tempfile.gettempdir()) / f"llmstack-{os.getuid()}" / "mindformers"
    os.environ.setdefault("LOCAL_DEFAULT_PATH", str(folder))
    os.environ.setdefault("LOG_MF_PATH", str(folder / "log"))
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    device.quiet_environment()
    show_warning = warnings.showwarning
    try:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            yield
    finally:
        warnings.showwarning = show_warning
    logger = _logger()
    for handler in [*logger.handlers]:
        # it took the stream of a moment ago for stdout
        if getattr(handler, "stream", None) is said:
            logger.removeHandler(handler)


def log_to(stream: TextIO) -> None:
    """Sends MindFormers' log to a stream as well as to its files, for a run of its own trainer.

    Args:
        stream: e.g. ``sys.stdout``.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    _logger().addHandler(handler)


def _logger() -> logging.Logger:
    """The one MindFormers logs to, named after where its files are."""
    return logging.getLogger(f"mindformers{os.path.expanduser(os.environ['LOG_MF_PATH'])}")


with quietly():
    from mindformers.core.context.build_context import MFContextOperator, build_context
    from mindformers.core.lr import build_lr
    from mindformers.core.optim import build_optim
    from mindformers.models.configuration_utils import PretrainedConfig
    from mindformers.models.modeling_utils import PreTrainedModel
    from mindformers.parallel_core.training_graph.base_models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from mindformers.parallel_core.training_graph.base_models.gpt.gpt_model import GPTModel
    from mindformers.parallel_core.training_graph.transformer.attention import SelfAttention
    from mindformers.parallel_core.training_graph.transformer.norm import get_norm_cls
    from mindformers.parallel_core.training_graph.transformer.transformer_block import TransformerBlockSubmodules
    from mindformers.parallel_core.transformer_config import TransformerConfig
    from mindformers.parallel_core.utils.init_method import init_method_zero
    from mindformers.parallel_core.utils.model_mixin import TrainModelMixin
    from mindformers.tools.register import MindFormerConfig, MindFormerModuleType, MindFormerRegister
    from mindformers.trainer import Trainer
    from mindformers.wrapper import MFTrainOneStepCell


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
    "MFTrainOneStepCell",
    "MindFormerConfig",
    "MindFormerModuleType",
    "MindFormerRegister",
    "PreTrainedModel",
    "PretrainedConfig",
    "SelfAttention",
    "TrainModelMixin",
    "Trainer",
    "TransformerBlockSubmodules",
    "TransformerConfig",
    "build_context",
    "build_lr",
    "build_optim",
    "get_gpt_layer_local_spec",
    "get_norm_cls",
    "init_method_zero",
    "log_to",
    "mcore_mode",
]
