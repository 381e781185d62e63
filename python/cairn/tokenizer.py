"""Tokenizers."""

from __future__ import annotations

import os
from typing import Any

from ._library import _core


class Tokenizer:
    """A tokenizer of any kind that `cairn tokenize` takes: a folder or file of
    tokenizer.json, a SentencePiece model, or the files of BPE and WordPiece.

        tokenizer = cairn.Tokenizer("gpt2/")
        ids = tokenizer.encode("Hello")
        tokenizer.decode(ids)
    """

    def __init__(self, path: str | os.PathLike[str] = "", *, type: str = "", vocab_file: str | os.PathLike[str] = "", merge_file: str | os.PathLike[str] = "", add_special_tokens: bool = True) -> None:
        self._arguments = (os.fspath(path), type, os.fspath(vocab_file), os.fspath(merge_file), add_special_tokens)
        self._core = _core.Tokenizer(*self._arguments)

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return self._core.encode(text)

    def decode(self, ids: Any) -> str:
        """The text of ids. Bytes that are no UTF-8 are replaced; decode_bytes() has them."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: Any) -> bytes:
        """The bytes of ids."""
        return self._core.decode([int(each) for each in ids])

    def token(self, token_id: int) -> str:
        """A token as the vocabulary spells it."""
        return self._core.token(token_id).decode("utf-8", "replace")

    def find(self, token: str) -> int | None:
        """The id of a token, or None."""
        return self._core.find(token)

    @property
    def special(self) -> dict[str, int]:
        """Ids by role, of those that there are: "end_of_document", "pad", "mask", …"""
        return self._core.special

    def __len__(self) -> int:
        return self._core.vocab_size

    def __call__(self, text: Any) -> Any:
        return self.encode(text)

    def __reduce__(self) -> Any:
        path, kind, vocab_file, merge_file, add = self._arguments
        return _restored, (path, kind, vocab_file, merge_file, add)


def _restored(path, kind, vocab_file, merge_file, add):
    return Tokenizer(path, type=kind, vocab_file=vocab_file, merge_file=merge_file, add_special_tokens=add)
