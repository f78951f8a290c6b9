"""A tokenizer: text to ids, conversations to ids with the mask of what the assistant wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers  # type: ignore[import-untyped]

from llmstack.data.chat import ChatTemplate, EncodedChat, span_mask
from llmstack.data.records import Message, written
from llmstack.data.tokenizer_files import TEMPLATE_FILE, dump_json, read_folder, token_text
from llmstack.errors import DataError


class Tokenizer:
    """A `tokenizers` model, its special tokens and its chat template.

    Args:
        backend: the tokenizers model; its padding and truncation are switched off.
        settings: content of ``tokenizer_config.json``; names ``eos_token`` and, when there are any, ``pad_token``
            and ``bos_token``.
        template: the chat template, or None.
        extra_eos_ids: further ids that end an answer (from ``generation_config.json``).

    Attributes:
        vocab_size: largest id + 1.
        pad_id: id that fills rows (the end-of-text id when the tokenizer has no pad). Nothing is ever found by it.
        eos_id: id that ends a document.
        eos_ids: every id that ends an answer, ``eos_id`` first.
        prefix_ids: ids the tokenizer puts in front of a document (a BOS, mostly none).
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        settings: dict[str, Any],
        template: str | None,
        *,
        extra_eos_ids: Sequence[int] = (),
        where: str = "tokenizer",
    ) -> None:
        backend.no_padding()
        backend.no_truncation()
        self._backend, self._settings, self._where = backend, dict(settings), where
        self._settings.pop("chat_template", None)
        self.vocab_size = max(backend.get_vocab(with_added_tokens=True).values()) + 1
        self._special = {t.content: i for i, t in backend.get_added_tokens_decoder().items() if t.special}
        self._names = {
            key: token_text(value)
            for key, value in self._settings.items()
            if key.endswith("_token") and token_text(value)
        }
        self.eos_id = _id_of("eos_token", self._names, backend, where)
        self.pad_id = _id_of("pad_token", self._names, backend, where) if "pad_token" in self._names else self.eos_id
        self.prefix_ids = _prefix_ids(backend)
        self._template = None if template is None else ChatTemplate(template, self._names, where=f"{where} template")
        self._turn_end = _turn_end(self._template, self._special)
        ends = [self.eos_id, *([] if self._turn_end is None else [self._special[self._turn_end]]), *extra_eos_ids]
        self.eos_ids: tuple[int, ...] = tuple(dict.fromkeys(ends))

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; nothing is added. Control tokens written out in the text become their ids.

        Args:
            text: any text.

        Returns:
            Its ids.
        """
        return self._backend.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """``encode`` of many texts, on all cores.

        Args:
            texts: any texts.

        Returns:
            The ids of each.
        """
        return [item.ids for item in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """Text of token ids.

        Args:
            ids: token ids.
            skip_special: leave control tokens out.

        Returns:
            The text; bytes that are not UTF-8 become U+FFFD.
        """
        return self._backend.decode([int(i) for i in ids], skip_special_tokens=skip_special)

    @property
    def control_tokens(self) -> dict[str, int]:
        """Text and id of every control token: those that :meth:`decode` leaves out."""
        return dict(self._special)

    @property
    def tokens_by_id(self) -> dict[int, str]:
        """Every token as the vocabulary writes it, control tokens too."""
        return {index: token for token, index in self._backend.get_vocab(with_added_tokens=True).items()}

    @property
    def has_template(self) -> bool:
        """Whether conversations can be encoded."""
        return self._template is not None

    @property
    def template(self) -> ChatTemplate:
        """The chat template.

        Raises:
            DataError: the tokenizer has none.
        """
        if self._template is None:
            raise DataError(f"{self._where}: expected a chat template, got none. Set `tokenizer.chat_template`.")
        return self._template

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool, tools: str = "") -> str:
        """A conversation as the text the model reads.

        Args:
            messages: the turns.
            add_generation_prompt: end with the opening of an assistant turn.
            tools: JSON list of the schemas of the tools the assistant may call; empty: none.

        Returns:
            The text, control tokens written out.
        """
        return self.template.render(messages, add_generation_prompt=add_generation_prompt, tools=tools)

    def encode_chat(self, messages: Sequence[Message], *, where: str = "messages", tools: str = "") -> EncodedChat:
        """A conversation as ids, and which of them the assistant has to produce.

        Args:
            messages: the turns.
            where: where they come from, for messages.
            tools: JSON list of the schemas of the tools the assistant may call; empty: none.

        Returns:
            Ids (equal to ``apply_chat_template(tokenize=True)``) and the assistant mask.

        Raises:
            DataError: a turn holds a control token, or the template does not fit.
        """
        return self.encode_chats([messages], wheres=[where], tools=[tools])[0]

    def encode_chats(
        self,
        conversations: Sequence[Sequence[Message]],
        *,
        wheres: Sequence[str],
        tools: Sequence[str] | None = None,
        last_turn_only: bool = False,
    ) -> list[EncodedChat]:
        """``encode_chat`` of many conversations, on all cores.

        Args:
            conversations: the turns of each.
            wheres: where each comes from, for messages.
            tools: the tools of each; None: no conversation has any.
            last_turn_only: leave the assistant's earlier turns out of the mask.

        Returns:
            Ids and assistant mask of each.
        """
        template = self.template
        if self._turn_end is None:
            raise DataError(
                f"{self._where}: expected a chat template that ends the assistant's turn with a special token of the "
                "tokenizer, got one that does not: a model trained on it never stops. Set `tokenizer.chat_template`."
            )
        texts, spans = [], []
        for messages, where, schemas in _checked(self._special, conversations, wheres, tools):
            text, found = template.assistant_spans(
                messages, self._turn_end, tools=schemas, where=where, last_turn_only=last_turn_only
            )
            template.refuse_drops(messages, add_generation_prompt=False, tools=schemas, where=where)
            texts.append(text)
            spans.append(found)
        encoded = self._backend.encode_batch(texts, add_special_tokens=False)
        return [
            EncodedChat(item.ids, span_mask(item.offsets, found)) for item, found in zip(encoded, spans, strict=True)
        ]

    def encode_prompt(self, messages: Sequence[Message], *, where: str = "prompt", tools: str = "") -> list[int]:
        """The ids a model is given to answer a conversation: it ends with the opening of the assistant's turn.

        Args:
            messages: the turns so far.
            where: where they come from, for messages.
            tools: JSON list of the schemas of the tools the assistant may call; empty: none.

        Returns:
            Token ids.
        """
        return self.encode_prompts([messages], wheres=[where], tools=[tools])[0]

    def encode_prompts(
        self,
        conversations: Sequence[Sequence[Message]],
        *,
        wheres: Sequence[str],
        tools: Sequence[str] | None = None,
    ) -> list[list[int]]:
        """``encode_prompt`` of many conversations, on all cores.

        Args:
            conversations: the turns of each.
            wheres: where each comes from, for messages.
            tools: the tools of each; None: no conversation has any.

        Returns:
            Token ids of each.
        """
        template, texts = self.template, []
        for messages, where, schemas in _checked(self._special, conversations, wheres, tools):
            texts.append(template.render(messages, add_generation_prompt=True, tools=schemas, where=where))
            template.refuse_drops(messages, add_generation_prompt=True, tools=schemas, where=where)
        return self.encode_batch(texts)

    def save(self, folder: str | Path) -> None:
        """Write the folder transformers' ``AutoTokenizer`` and ``Tokenizer.load`` read.

        Args:
            folder: made when it does not exist; gets ``tokenizer.json``, ``tokenizer_config.json``,
                ``special_tokens_map.json``, ``generation_config.json`` (every ending id, so that generation stops)
                and, with a template, ``chat_template.jinja``.
        """
        for name, text in self._files().items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def _files(self) -> dict[str, str]:
        files = {
            "tokenizer.json": self._backend.to_str(pretty=True),
            "tokenizer_config.json": dump_json(self._settings),
            "special_tokens_map.json": dump_json(self._names),
            "generation_config.json": dump_json({"eos_token_id": list(self.eos_ids), "pad_token_id": self.pad_id}),
        }
        if self._template is not None:
            files[TEMPLATE_FILE] = self._template.source
        return files

    def fingerprint(self) -> str:
        """A sha256 over everything that decides what a text or a conversation becomes.

        Returns:
            64 hex digits.
        """
        digest = hashlib.sha256()
        for name, text in sorted(self._files().items()):
            digest.update(f"{name}\0{text}\0".encode())
        return digest.hexdigest()

    @classmethod
    def load(cls, folder: str | Path, *, template: str | None = None) -> Tokenizer:
        """Read a tokenizer folder.

        Args:
            folder: holds ``tokenizer.json`` and ``tokenizer_config.json``.
            template: a chat template that replaces the folder's own.

        Returns:
            The tokenizer.

        Raises:
            DataError: a file is missing or damaged, or there is no end-of-text token.
        """
        files = read_folder(Path(folder))
        return cls(
            files.backend,
            files.settings,
            template or files.template,
            extra_eos_ids=files.eos_ids,
            where=str(folder),
        )


def _checked(
    special: Collection[str],
    conversations: Sequence[Sequence[Message]],
    wheres: Sequence[str],
    tools: Sequence[str] | None,
) -> Iterator[tuple[Sequence[Message], str, str]]:
    """Each conversation with its place and tools.

    A control token inside a turn would end it or open another: nobody may write one but the template.
    """
    for messages, where, schemas in zip(conversations, wheres, tools or [""] * len(wheres), strict=True):
        for owner, text in written(messages, schemas):
            for token in special:
                if token in text:
                    raise DataError(
                        f"{where}: expected {owner} text without control tokens, got {token!r} in it. "
                        "Remove it from the text."
                    )
        yield messages, where, schemas


def _id_of(name: str, names: Mapping[str, str], backend: tokenizers.Tokenizer, where: str) -> int:
    token = names.get(name)
    found = None if token is None else backend.token_to_id(token)
    if found is None:
        raise DataError(
            f"{where}: expected an {name} that is in the vocabulary, got {token!r}. "
            f"Set {name} in tokenizer_config.json."
        )
    return found


def _prefix_ids(backend: tokenizers.Tokenizer) -> tuple[int, ...]:
    """What the post-processor puts first, e.g. a BOS; an ending token it may put last is left to the caller."""
    plain = backend.encode("x", add_special_tokens=False).ids
    full = backend.encode("x", add_special_tokens=True).ids
    start = next((i for i in range(len(full)) if full[i : i + len(plain)] == plain), 0)
    return tuple(full[:start])


def _turn_end(template: ChatTemplate | None, special: Collection[str]) -> str | None:
    """Text of the special token the template writes behind an assistant's text; None without one."""
    if template is None:
        return None
    probe = "QZX"
    try:
        text = template.render((Message("user", "a"), Message("assistant", probe)), add_generation_prompt=False)
    except DataError:
        return None
    tail = text.rpartition(probe)[2].lstrip()
    return max((token for token in special if tail.startswith(token)), key=len, default=None)
