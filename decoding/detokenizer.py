"""Token ids to text, a token at a time, never half a character. Knows nothing of vocabularies or stops."""

from __future__ import annotations

import codecs
from collections.abc import Callable


class Detokenizer:
    """Incremental UTF-8 over the bytes of tokens.

    What `push` and `flush` return, joined, equals the joined bytes decoded with errors="replace": an invalid byte
    becomes U+FFFD as soon as it is known to be invalid. At most 3 bytes are held between calls.

    token_bytes: the UTF-8 bytes of an id, whole characters or not; b"" for special tokens.
    """

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """The characters that this token completes, possibly none."""
        return self._decoder.decode(self._token_bytes(token))

    def flush(self) -> str:
        """What the text ends with: U+FFFD if it breaks off inside a character, else ""."""
        return self._decoder.decode(b"", final=True)
