"""A tokenizer's files ↔ a stream of chunks. Imported through `slipstream.wire`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from decoding.errors import LimitExceeded
from slipstream.fields import require
from slipstream.v1 import target_pb2 as target

CHUNK_BYTES = 256 * 1024
MAX_FILES = 16

# A file's name becomes a name in the client's cache: no folders, nothing hidden, nothing special to a file system.
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def is_fingerprint(text: str) -> bool:
    return _FINGERPRINT.fullmatch(text) is not None


def tokenizer_request() -> target.TokenizerRequest:
    return target.TokenizerRequest()


def tokenizer_chunks(files: Mapping[str, bytes]) -> Iterator[target.TokenizerChunk]:
    """Each file in chunks of at most 256 KiB, one file after the other; an empty file is one empty chunk."""
    for name, data in files.items():
        starts = range(0, max(len(data), 1), CHUNK_BYTES)
        for start in starts:
            yield target.TokenizerChunk(
                file=name, data=data[start : start + CHUNK_BYTES], last=start + CHUNK_BYTES >= len(data)
            )


class FileAssembly:
    """The receiving side: chunks in, files out. Holds at most `limit_bytes` of all files together."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._name: str | None = None
        self._pieces: list[bytes] = []
        self._files: dict[str, bytes] = {}

    def push(self, chunk: target.TokenizerChunk) -> None:
        """Raises ContractViolation for chunks out of order or an unsafe name, LimitExceeded past the limit."""
        require(_FILE_NAME.fullmatch(chunk.file) is not None, "tokenizer: a file's name is not a plain one")
        require(self._name in (None, chunk.file), "tokenizer: a file starts before the last one ended")
        require(chunk.file not in self._files, "tokenizer: a file comes twice")
        require(len(self._files) < MAX_FILES, f"tokenizer: it has more than {MAX_FILES} files")
        self._bytes += len(chunk.data)
        if self._bytes > self._limit_bytes:
            raise LimitExceeded("tokenizer files", limit=self._limit_bytes, unit="bytes", got=self._bytes)
        self._name = chunk.file
        self._pieces.append(chunk.data)
        if chunk.last:
            self._files[chunk.file] = b"".join(self._pieces)
            self._name = None
            self._pieces = []

    def files(self) -> dict[str, bytes]:
        """All files, once the stream has ended. Raises ContractViolation where it ended inside a file."""
        require(self._name is None, "tokenizer: the stream ended inside a file")
        require(bool(self._files), "tokenizer: the stream held no file")
        return dict(self._files)
