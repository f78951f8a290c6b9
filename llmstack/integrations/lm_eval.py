"""Models in EleutherAI's lm-evaluation-harness (0.4), under the name ``llmstack``.

``python -m llmstack.integrations.lm_eval --model llmstack --model_args path=MODEL_DIR --tasks NAME`` is the harness's
own command with this model added; a program imports this module and passes ``model="llmstack"``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from llmstack.data.records import Message
from llmstack.errors import UserError
from llmstack.runtime.device import DeviceName, quiet_environment, setup

quiet_environment()  # before libraries with threads of their own, which the harness loads
try:
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import TemplateLM
    from lm_eval.api.registry import register_model
    from lm_eval.models.utils import normalize_gen_kwargs
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
except ModuleNotFoundError as error:
    raise UserError(
        f"lm-eval: expected lm-evaluation-harness 0.4, got no module {error.name!r}. "
        "Install it with `pip install 'llmstack[lm-eval]'`."
    ) from error

_SAMPLING = ("repetition_penalty", "top_k", "top_p", "min_p")


@register_model("llmstack")
class LlmstackLM(TemplateLM):
    """A model folder as the harness sees it.

    Texts longer than the context lose their beginning, as in the harness's own models.

    Args:
        path: a model folder.
        batch_size: answers written at once; ``auto`` is 32. Likelihoods choose their own batches.
        max_batch_size: of ``auto``.
        device: ``cpu`` or ``ascend``.
        threads: CPU threads; None uses all cores.
        max_gen_toks: longest answer of a task that names none.

    Raises:
        UserError: the folder holds no language model, or an option is out of range.
    """

    def __init__(
        self,
        path: str,
        *,
        batch_size: int | str = 32,
        max_batch_size: int | None = None,
        device: DeviceName | None = "cpu",
        threads: int | None = None,
        max_gen_toks: int = 256,
    ) -> None:
        super().__init__()
        if device not in (None, "cpu", "ascend"):
            raise UserError(f"device: expected cpu or ascend, got {device!r}. Pass `--device cpu`.")
        setup(device or "cpu", threads)
        from llmstack.evaluation.loading import load_language_model

        self._loaded = load_language_model(path)
        self._tokens = self._loaded.tokenizer
        self.max_length, self.max_gen_toks = self._loaded.context, int(max_gen_toks)
        self._batch_rows = (max_batch_size or 32) if batch_size == "auto" else int(batch_size)
        if self._batch_rows < 1:
            raise UserError(f"batch_size: expected auto or at least 1, got {batch_size}. Raise it.")
        self._scorer: Any = None
        self._writers: dict[Any, Any] = {}

    @property
    def eot_token_id(self) -> int:
        """The token that ends a document."""
        return self._tokens.eos_id

    @property
    def prefix_token_id(self) -> int:
        """What a document's first token is predicted from: a BOS, else the end of the document before."""
        return self._tokens.prefix_ids[-1] if self._tokens.prefix_ids else self._tokens.eos_id

    @property
    def tokenizer_name(self) -> str:
        """A name that changes with everything the tokenizer does."""
        return f"llmstack-{self._tokens.fingerprint()[:16]}"

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """Token ids of a text.

        Args:
            string: the text.
            add_special_tokens: put the tokenizer's prefix (a BOS) in front; None does unless the text begins with it.
            kwargs: none is known.

        Raises:
            UserError: a further option.
        """
        if kwargs:
            raise UserError(f"tok_encode: expected no further option, got {', '.join(kwargs)}. Leave it out.")
        ids, prefix = self._tokens.encode(string), list(self._tokens.prefix_ids)
        if add_special_tokens is False or (add_special_tokens is None and ids[: len(prefix)] == prefix):
            return ids
        return [*prefix, *ids]

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """The folder's chat template, which has no name.

        Args:
            chat_template: whether one is wanted.
        """
        return self._tokens.template.source if chat_template else None

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """A conversation as text.

        Args:
            chat_history: roles and contents.
            add_generation_prompt: end with the opening of the assistant's turn.
        """
        turns = [Message(turn["role"], turn["content"]) for turn in chat_history]
        return self._tokens.render(turns, add_generation_prompt=add_generation_prompt)

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Log-likelihood of whole texts, each token predicted once from what its window holds before it.

        Args:
            requests: with one text each.
            disable_tqdm: the progress bar is hidden where there is no terminal anyway.
        """
        texts = [request.args[0] for request in requests]
        pairs, owners = [], []
        for index, text in enumerate(texts):
            ids = self.tok_encode(text, add_special_tokens=False)
            for window in get_rolling_token_windows(ids, self.prefix_token_id, self.max_length, 1):
                pairs.append((None, *make_disjoint_window(window)))
                owners.append(index)
        sums = [0.0] * len(texts)
        for owner, (logp, _) in zip(owners, self._loglikelihood_tokens(pairs), strict=True):
            sums[owner] += logp
        for text, total in zip(texts, sums, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", (text,), total)
        return sums

    def _loglikelihood_tokens(self, requests: Sequence[tuple[Any, list[int], list[int]]], **_: Any) -> list[tuple]:
        from llmstack.evaluation.likelihood import LikelihoodScorer, Target

        if self._scorer is None:
            self._scorer = LikelihoodScorer(self._loaded.model)
        targets = []
        for _key, context, continuation in requests:
            if not 0 < len(continuation) <= self.max_length:
                raise UserError(
                    f"continuation: expected 1 to {self.max_length} tokens, the model's context, got "
                    f"{len(continuation)}. Leave the task out."
                )
            # the last token is only predicted, so one more than the context fits
            ids = [*context, *continuation][-(self.max_length + 1) :]
            targets.append(Target(ids, len(ids) - len(continuation)))
        results = [(float(f.logp.astype(float).sum()), bool(f.greedy.all())) for f in self._scorer.score(targets)]
        for (key, _c, _k), result in zip(requests, results, strict=True):
            if key is not None:
                self.cache_hook.add_partial("loglikelihood", key, result)
        return results

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Answers that end before one of a task's stop texts.

        Args:
            requests: with a prompt and the task's options each.
            disable_tqdm: the progress bar is hidden where there is no terminal anyway.

        Raises:
            UserError: an option that is not known here.
        """
        groups: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            groups.setdefault(json.dumps(request.args[1], sort_keys=True), []).append(index)
        texts = [""] * len(requests)
        for indices in groups.values():
            options = requests[indices[0]].args[1]
            writer = self._writer(options)
            room = self.max_length - writer.options.max_new_tokens
            prompts = [self.tok_encode(requests[index].args[0])[-max(room, 1) :] for index in indices]
            wheres = [f"request {index}" for index in indices]
            for index, (answer,) in zip(indices, writer.write(prompts, wheres=wheres), strict=True):
                texts[index] = answer.text
                self.cache_hook.add_partial("generate_until", requests[index].args, answer.text)
        return texts

    def _writer(self, options: dict[str, Any]) -> Any:
        """What answers with a task's options; the same one for the same options."""
        from llmstack.evaluation.answers import AnswerOptions, Writer
        from llmstack.generation.rules import SamplingRules

        known = dict(normalize_gen_kwargs(options, self.max_gen_toks))
        greedy = not known.pop("do_sample", False)
        rules = {name: known.pop(name) for name in _SAMPLING if name in known}
        wanted = AnswerOptions(
            max_new_tokens=int(known.pop("max_gen_toks")),
            temperature=0.0 if greedy else float(known.pop("temperature", 1.0)),
            rules=SamplingRules(**rules),
            stops=tuple(stop for stop in known.pop("until", ()) if stop),
            batch_rows=self._batch_rows,
        )
        known.pop("temperature", None)  # of a greedy answer
        if known:
            raise UserError(
                f"generation options: expected until, max_gen_toks, do_sample, temperature, {', '.join(_SAMPLING)}, "
                f"got {', '.join(sorted(known))}. Leave it out of the task."
            )
        if wanted not in self._writers:
            self._writers[wanted] = Writer(self._loaded, wanted)
        return self._writers[wanted]


def with_device(argv: Sequence[str]) -> list[str]:
    """A command line of the harness that names a device: its own default is a GPU of PyTorch's.

    Args:
        argv: arguments; a configuration file is left to name the device itself.
    """
    given = {word.partition("=")[0] for word in argv}
    runs = "--model" in given and not given & {"--device", "--config", "-C"}
    return [*argv, *(["--device", "cpu"] if runs else [])]


def main() -> int:
    """The harness's command line, in which ``--model llmstack`` is known.

    Returns:
        The exit status: 2 when the input is wrong.
    """
    from lm_eval.__main__ import cli_evaluate

    sys.argv = with_device(sys.argv)
    try:
        cli_evaluate()
    except UserError as wrong:
        sys.stderr.write(f"llmstack: {wrong}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
