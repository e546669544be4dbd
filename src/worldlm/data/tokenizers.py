"""How a conversation becomes token ids: a small protocol, with Hugging Face's tokenizers behind it, and with bytes."""

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from worldlm.core.errors import InputError, SetupError
from worldlm.core.types import Message


@runtime_checkable
class ChatTokenizer(Protocol):
    """A tokenizer with its chat template."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def end_of_turn(self) -> int:
        """The token with which a model ends its reply."""

    def apply(self, messages: Sequence[Message], *, prompt: bool) -> list[int]:
        """A conversation as token ids; with `prompt` up to where a reply begins. Raises what its template raises."""

    def encode(self, text: str) -> list[int]:
        """A text by itself as token ids; what looks like a control token is text like any other."""

    def decode(self, ids: Sequence[int]) -> str:
        """Token ids as text, control tokens among it, nothing tidied."""

    def count(self, text: str) -> int:
        """Tokens of a text by itself."""


class ByteTokenizer:
    """One token a byte, in the ChatML template: exact everywhere, and it needs nothing."""

    name = "bytes"
    end_of_turn = 257
    _START = 256

    def apply(self, messages: Sequence[Message], *, prompt: bool) -> list[int]:
        """`<|im_start|>ROLE\\nCONTENT<|im_end|>\\n` for each message."""
        ids: list[int] = []
        for message in messages:
            ids += (self._START, *f"{message.role}\n{message.content}".encode(), self.end_of_turn, 10)
        return [*ids, self._START, *b"assistant\n"] if prompt else ids

    def encode(self, text: str) -> list[int]:
        """Its bytes in UTF-8."""
        return list(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some tokens; half a character is U+FFFD."""
        data = b"".join(
            bytes([i]) if i < self._START else b"<|im_start|>" if i == self._START else b"<|im_end|>" for i in ids
        )
        return data.decode("utf-8", "replace")

    def count(self, text: str) -> int:
        """Bytes of UTF-8."""
        return len(text.encode())


class HuggingFaceTokenizer:
    """A tokenizer of the `transformers` library with its own chat template.

    `options` go to the template (`enable_thinking`, say).
    """

    def __init__(self, tokenizer: Any, name: str, **options: Any):
        self._tokenizer = tokenizer
        self.name = name
        self._options = options
        control = "|".join(re.escape(token) for token in sorted(tokenizer.get_added_vocab(), key=len, reverse=True))
        self._before_control = re.compile(f"(?={control})" if control else r"(?!)")
        # Each prompt of a session repeats the one before, so most pieces have been seen.
        self._piece = lru_cache(maxsize=8192)(self._encode)

    @classmethod
    def load(cls, path: Path, **options: Any) -> "HuggingFaceTokenizer":
        """From a folder as `save_pretrained` writes it, or out of a GGUF file.

        Raises SetupError when `transformers` is not installed, InputError when there is no such tokenizer.
        """
        if not path.exists():
            raise InputError(f"there is no tokenizer {path}; name a folder of one, or a GGUF file")
        # Without torch it would say on every import that models are not to be had: a tokenizer is none.
        os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
        try:
            from transformers import AutoTokenizer
        except ImportError:
            raise SetupError("a model's tokenizer needs transformers; pip install 'worldlm[train]'") from None
        where = (str(path.parent), {"gguf_file": path.name}) if path.is_file() else (str(path), {})
        try:
            tokenizer = AutoTokenizer.from_pretrained(where[0], local_files_only=True, **where[1])
        except ImportError:
            raise SetupError(f"the tokenizer in {path} needs torch and gguf; pip install 'worldlm[train]'") from None
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"cannot read a tokenizer from {path}: {' '.join(str(error).split())[:200]}") from error
        if not getattr(tokenizer, "chat_template", None):
            raise InputError(f"the tokenizer {path} has no chat template; name that of a chat model")
        return cls(tokenizer, str(path), **options)

    def save(self, folder: Path) -> None:
        """Write its files into a folder, chat template and all."""
        self._tokenizer.save_pretrained(folder)

    @property
    def end_of_turn(self) -> int:
        """The tokenizer's end-of-sequence token, which for chat models ends a turn."""
        return int(self._tokenizer.eos_token_id)

    def apply(self, messages: Sequence[Message], *, prompt: bool) -> list[int]:
        """What `apply_chat_template` gives: a tokenizer splits at control tokens first, so each piece stands alone."""
        text = self._tokenizer.apply_chat_template(
            [message.model_dump() for message in messages],
            tokenize=False,
            add_generation_prompt=prompt,
            **self._options,
        )
        return [token for piece in self._before_control.split(text) if piece for token in self._piece(piece)]

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def encode(self, text: str) -> list[int]:
        """Without what a template or a tokenizer puts around."""
        return list(
            self._tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
        )

    def decode(self, ids: Sequence[int]) -> str:
        """As it stands."""
        text = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(text)

    def count(self, text: str) -> int:
        """Without what a template puts around."""
        return len(self._piece(text))
