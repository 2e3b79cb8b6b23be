"""How a table lies in a file: compact, checked, the same bytes for the same table. Knows nothing of how it is used.

    8 bytes    b"SLNGRAM" and the format's number
    4 bytes    length of the header, little-endian
    header     JSON: language, tokenizer (digests by part), orders [[context length, entries] …], sha256 of the rest
    rest       zlib: for each order, as byte planes: hashes as differences (4), tokens (4), shares packed two a byte

A byte plane holds one byte of each element: neighbours in it are alike, which is what zlib needs.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drafts.errors import UnusableTable
from drafts.table import Order, Table

SUFFIX = ".ngrams"
MAX_FILE_BYTES = 16 * 2**20
_MAGIC = b"SLNGRAM\x01"
_MAX_UNPACKED_BYTES = 256 * 2**20


def save(table: Table, folder: Path) -> Path:
    """Write LANGUAGE.ngrams in a folder, replacing it whole or not at all."""
    parts = []
    for length in sorted(table.orders):
        order = table.orders[length]
        parts += [_planes(np.diff(order.hashes, prepend=np.uint32(0))), _planes(order.tokens), _nibbles(order.shares)]
    payload = zlib.compress(b"".join(parts), 9)
    header = json.dumps(
        {
            "language": table.language,
            "tokenizer": dict(table.tokenizer),
            "orders": [[length, len(table.orders[length].hashes)] for length in sorted(table.orders)],
            "sha256": hashlib.sha256(payload).hexdigest(),
        },
        sort_keys=True,
    ).encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{table.language}{SUFFIX}"
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_bytes(_MAGIC + len(header).to_bytes(4, "little") + header + payload)
    partial.replace(path)
    return path


def load(path: Path) -> Table:
    """Read a table. Raises UnusableTable where the file is missing, damaged or of another format."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UnusableTable(path.name, f"is over {MAX_FILE_BYTES} bytes", remedy=rebuild_hint(path.stem))
        data = path.read_bytes()
    except OSError as error:
        raise UnusableTable(path.name, error.strerror or "can't be read", remedy=rebuild_hint(path.stem)) from error
    if not data.startswith(_MAGIC):
        raise UnusableTable(path.name, "is not a table of this format", remedy=rebuild_hint(path.stem))
    try:
        start = len(_MAGIC) + 4
        end = start + int.from_bytes(data[len(_MAGIC) : start], "little")
        header = json.loads(data[start:end])
        if hashlib.sha256(data[end:]).hexdigest() != header["sha256"]:
            raise ValueError("checksum")
        return Table(language=header["language"], tokenizer=header["tokenizer"], orders=_orders(header, data[end:]))
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise UnusableTable(path.name, "is damaged", remedy=rebuild_hint(path.stem)) from error


def rebuild_hint(language: str) -> str:
    """The command that makes a table anew, in words for an error message."""
    return f"rebuild it with `slipstream drafts build-table --language {language} --corpus PATHS --tokenizer FOLDER`"


def _orders(header: dict[str, object], payload: bytes) -> dict[int, Order]:
    sizes = header["orders"]
    if not isinstance(sizes, list):
        raise TypeError("orders")
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(payload, _MAX_UNPACKED_BYTES)
    orders, offset = {}, 0
    for length, count in sizes:
        hashes = np.cumsum(_unplanes(data, offset, count), dtype=np.uint32)
        tokens = _unplanes(data, offset + 4 * count, count)
        packed = np.frombuffer(data, np.uint8, (count + 1) // 2, offset + 8 * count)
        shares = np.stack([packed >> 4, packed & 15], axis=1).ravel()[:count]
        offset += 8 * count + (count + 1) // 2
        orders[int(length)] = Order(hashes=hashes, tokens=tokens, shares=shares)
    if offset != len(data):
        raise ValueError("length")
    return orders


def _planes(values: NDArray[np.uint32]) -> bytes:
    return np.ascontiguousarray(values.astype("<u4").view(np.uint8).reshape(-1, 4).T).tobytes()


def _unplanes(data: bytes, offset: int, count: int) -> NDArray[np.uint32]:
    planes = np.frombuffer(data, np.uint8, 4 * count, offset).reshape(4, count)
    return np.ascontiguousarray(planes.T).view("<u4").ravel().astype(np.uint32)


def _nibbles(shares: NDArray[np.uint8]) -> bytes:
    even = np.append(shares, np.uint8(0)) if len(shares) % 2 else shares
    return (even[::2] << 4 | even[1::2]).astype(np.uint8).tobytes()
