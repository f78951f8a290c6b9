"""``llmstack data annotate``: labels for prompts that have none."""

from __future__ import annotations

import argparse
import sys

from llmstack.engine.stop import Interrupts, end_at_once


def run(args: argparse.Namespace) -> int:
    """Does one round of labelling and prints what came of it.

    Args:
        args: ``recipe``, the configuration's file, and ``overrides``.

    Returns:
        0.

    Raises:
        UserError: the configuration, data, a label of a person, a key or an endpoint is not as it should be.
    """
    from llmstack.annotation.loop import annotate
    from llmstack.annotation.report import summary
    from llmstack.config.annotation import AnnotateConfig
    from llmstack.config.document import load_document

    document = load_document(args.recipe, args.overrides, AnnotateConfig)
    with Interrupts.given_to(end_at_once):  # every answer is on the disk as soon as it is there
        report = annotate(document.config, resolved=document.resolved)
    sys.stdout.write(summary(report))
    return 0
