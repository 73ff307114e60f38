"""Text to token ids, where text can never become a control token; knows no model."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

from tokenizers import AddedToken

from readahead.lm.spelling import bytes_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MARK = "\u241eCONTENT\u241e"
_ENCODED_TEXTS = 1024


class Tokenizer:
    """A tokenizer that keeps control tokens and text apart.

    ``encode`` is for what people and documents write: ``<|im_end|>`` in a document is nine plain
    characters. ``encode_control`` is for what the program itself writes around it.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._control = tokenizer
        # The backend keeps "split special tokens" as state that flips between calls, which two
        # threads would race on; a copy that never changes it has no such state.
        self._text = copy.deepcopy(tokenizer)
        self._text.split_special_tokens = True
        # Some control tokens, such as Qwen's <tool_call>, are not marked as special.
        added = tokenizer.added_tokens_decoder
        self._added = {i: token.content for i, token in added.items()}
        self._special = frozenset(i for i, token in added.items() if token.special)
        self._text.add_tokens(
            [AddedToken(text, special=True, normalized=False) for text in self._added.values()],
            special_tokens=True,
        )
        # The same passages, and what stands around them, are encoded with every word that is typed.
        remembered = lru_cache(maxsize=_ENCODED_TEXTS)
        self._encoded = remembered(partial(self._ids, self._text, split_special_tokens=True))
        self._encoded_control = remembered(
            partial(self._ids, self._control, split_special_tokens=False)
        )

    @property
    def num_tokens(self) -> int:
        """Return how many token ids there are, from 0 on."""
        return len(self._control)

    def has_same_tokens(self, other: Tokenizer) -> bool:
        """Return whether every token id means the same to both."""
        return self is other or self._vocabulary_digest == other._vocabulary_digest

    @cached_property
    def _vocabulary_digest(self) -> bytes:
        """Identify what every token id means; reading 150,000 tokens takes long, so once."""
        vocabulary = sorted(self._control.get_vocab().items())
        return hashlib.sha256(ascii(vocabulary).encode()).digest()

    @property
    def has_template(self) -> bool:
        """Return whether there is a chat template."""
        return bool(self._control.chat_template)

    @cached_property
    def opening_ids(self) -> tuple[int, ...]:
        """Return what the model expects before any text: a beginning-of-sequence token, or none."""
        ids = self._control.encode("", add_special_tokens=True)
        return tuple(ids[:1]) if ids[:1] == [self._control.bos_token_id] else ()

    def encode(self, text: str) -> list[int]:
        """Return the token ids of ``text``; nothing in it becomes a control token."""
        return list(self._encoded(text))

    def encode_control(self, text: str) -> list[int]:
        """Return the token ids of trusted ``text``, control tokens included."""
        return list(self._encoded_control(text))

    def forget(self) -> None:
        """Forget the texts that were encoded: some may be of documents that have gone since."""
        self._encoded.cache_clear()

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of ``token_ids`` without control tokens."""
        text = self._control.decode(
            list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        assert isinstance(text, str)
        return text

    def is_special(self, token_id: int) -> bool:
        """Return whether ``decode`` leaves the token out."""
        return token_id in self._special

    def token_bytes(self, token_id: int) -> bytes:
        """Return what a token stands for, which may be half a character; a control token's name.

        Nothing for an id that only pads the vocabulary.
        """
        if token_id in self._added:
            return self._added[token_id].encode()
        written = self._control.convert_ids_to_tokens(token_id)
        return bytes_of(written, by_byte=self._is_by_byte) if isinstance(written, str) else b""

    @cached_property
    def _is_by_byte(self) -> bool:
        decoder = getattr(getattr(self._control, "backend_tokenizer", None), "decoder", None)
        return decoder is not None and b"ByteLevel" in decoder.__getstate__()

    def frame(self, system: str) -> tuple[str, str]:
        """Return what the chat template writes before and after the user's message.

        A model without a template gets plain paragraphs; a template without a system role gets
        the system text at the head of the user's message.
        """
        if not self.has_template:
            return f"{system}\n\n", "\n\nAnswer:"
        user = {"role": "user", "content": _MARK}
        try:
            rendered = self.render([{"role": "system", "content": system}, user])
        except Exception:  # a template refuses by raising whatever it likes
            rendered = self.render([{"role": "user", "content": f"{system}\n\n{_MARK}"}])
        head, _, tail = rendered.partition(_MARK)
        return head, tail

    def turn(self) -> str:
        """Return what the chat template writes between an answer and the next user's message."""
        if not self.has_template:
            return "\n\n"
        user = {"role": "user", "content": _MARK}
        rendered = self.render([user, {"role": "assistant", "content": _MARK}, user])
        return rendered.split(_MARK)[2]

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return what the chat template writes of ``messages``, up to where the model goes on.

        The template may raise anything; see ``messages.message_ids`` for what people write.
        """
        rendered = self._control.apply_chat_template(
            [dict(message) for message in messages], tokenize=False, add_generation_prompt=True
        )
        assert isinstance(rendered, str)
        return rendered

    @staticmethod
    def _ids(
        tokenizer: PreTrainedTokenizerBase, text: str, *, split_special_tokens: bool
    ) -> tuple[int, ...]:
        # A lone surrogate is not a character that a tokenizer can take.
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return tuple(
            tokenizer.encode(
                clean, add_special_tokens=False, split_special_tokens=split_special_tokens
            )
        )
