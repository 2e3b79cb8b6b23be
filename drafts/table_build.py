"""Make a table from source files: count what follows each short run of tokens, keep what is sure and frequent.

A continuation counts once a file, however often the file repeats it: repeats inside of a file are for lookup drafting
to find, and one generated file must not outvote a language. A longer context is kept only where it says something
other, or surer, than the shorter one inside of it. The same files in any order make the same table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from decoding.errors import InvalidSetting
from drafts.table import SHARES, Order, Table, hashes_of
from drafts.vocabulary import Vocabulary

_TOKEN_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLimits:
    """What a build may read and keep.

    corpus_bytes: source read in all, the files beyond it left out (which ones depends on content alone).
    file_bytes: longer files are left out.
    longest_context: tokens, 1 to 16.
    least_files: files that must agree before a continuation is kept; at least 2.
    least_share: frequency, 0 to 1, under which a continuation is not worth a draft.
    entries: contexts kept in all, those that most files agree on first.
    """

    corpus_bytes: int = 48 * 2**20
    file_bytes: int = 64 * 2**10
    longest_context: int = 5
    least_files: int = 2
    least_share: float = 0.4
    entries: int = 440_000

    def __post_init__(self) -> None:
        for name, low in (
            ("corpus_bytes", 1),
            ("file_bytes", 1),
            ("longest_context", 1),
            ("least_files", 2),
            ("entries", 1),
        ):
            if getattr(self, name) < low:
                raise InvalidSetting(f"build.{name}", f"must be {low} or more, got {getattr(self, name)}")
        if self.longest_context > 16:
            raise InvalidSetting("build.longest_context", f"must be at most 16, got {self.longest_context}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """Contexts of one length, ascending by hash: the best continuation, its share, and how many files have it.

    shorter: hash of each context without its first token.
    """

    hashes: NDArray[np.uint32]
    tokens: NDArray[np.uint32]
    shares: NDArray[np.uint8]
    files: NDArray[np.int64]
    shorter: NDArray[np.uint32]


def build_table(
    language: str,
    files: Iterable[Path],
    vocabulary: Vocabulary,
    report: Callable[[str], None],
    limits: BuildLimits | None = None,
) -> Table:
    """Count `files` into a table bound to `vocabulary`; `report` is told of progress, a line at a time.

    Files that aren't UTF-8, are too long, or repeat another are passed over. Raises InvalidSetting where none is left.
    """
    limits = limits or BuildLimits()
    texts = [np.array(vocabulary.encode(text), dtype=np.uint64) for text in _distinct_texts(files, limits)]
    if not texts:
        raise InvalidSetting("corpus", "has no readable source file")
    report(f"{language}: {len(texts)} files, {sum(map(len, texts))} tokens")
    kept: dict[int, _Counted] = {}
    known: _Counted | None = None
    for length in range(1, limits.longest_context + 1):
        counted = _count(texts, length, limits)
        kept[length] = counted if known is None else _pick(counted, _says_more(counted, known))
        known = counted
        report(f"{language}: {len(kept[length].hashes)} contexts of {length} tokens")
    return Table(
        language=language,
        tokenizer=vocabulary.fingerprint_parts(),
        orders={length: _order(counted) for length, counted in _most_frequent(kept, limits.entries).items()},
    )


def _distinct_texts(files: Iterable[Path], limits: BuildLimits) -> Iterator[str]:
    """Contents in the order of their digests, so that neither file names nor their order matter."""
    by_digest: dict[bytes, Path] = {}
    for path in files:
        if path.is_file() and 0 < path.stat().st_size <= limits.file_bytes:
            by_digest.setdefault(hashlib.sha256(path.read_bytes()).digest(), path)
    left = limits.corpus_bytes
    for digest in sorted(by_digest):
        data = by_digest[digest].read_bytes()
        left -= len(data)
        if left < 0:
            return
        try:
            yield data.decode()
        except UnicodeDecodeError:
            continue


def _count(texts: list[NDArray[np.uint64]], length: int, limits: BuildLimits) -> _Counted:
    keys, shorter = [], []
    for tokens in texts:
        if len(tokens) <= length:
            continue
        contexts = hashes_of(tokens[:-1], length).astype(np.uint64)
        unique, first = np.unique(contexts << np.uint64(_TOKEN_BITS) | tokens[length:], return_index=True)
        keys.append(unique)
        shorter.append(hashes_of(tokens[1:-1], length - 1)[first] if length > 1 else np.zeros(len(first), np.uint32))
    if not keys:
        keys, shorter = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint32)]
    pairs, first, files = np.unique(np.concatenate(keys), return_index=True, return_counts=True)
    hashes = (pairs >> np.uint64(_TOKEN_BITS)).astype(np.uint32)
    starts = np.flatnonzero(np.diff(hashes, prepend=np.uint32(0)).astype(bool) | (np.arange(len(hashes)) == 0))
    if not len(starts):
        starts = np.zeros(0, dtype=np.int64)
    group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(hashes)))
    totals = np.bincount(group, weights=files, minlength=len(starts))
    best = np.lexsort((np.arange(len(files)), -files, group))[starts]  # of a tie the lowest token id
    share = files[best] / (totals + 1.0)  # one unseen file disagrees: few files are no certainty
    enough = (files[best] >= limits.least_files) & (share >= limits.least_share)
    chosen = best[enough]
    return _Counted(
        hashes=hashes[chosen],
        tokens=(pairs[chosen] & np.uint64(2**_TOKEN_BITS - 1)).astype(np.uint32),
        shares=np.minimum(share[enough] * SHARES, SHARES - 1).astype(np.uint8),
        files=files[chosen],
        shorter=np.concatenate(shorter)[first[chosen]],
    )


def _says_more(longer: _Counted, shorter: _Counted) -> NDArray[np.bool_]:
    """Where a longer context has another token than the shorter one inside of it, or a higher share."""
    if not len(shorter.hashes):
        return np.ones(len(longer.hashes), dtype=bool)
    place = np.minimum(np.searchsorted(shorter.hashes, longer.shorter), len(shorter.hashes) - 1)
    known = shorter.hashes[place] == longer.shorter
    same = known & (shorter.tokens[place] == longer.tokens)
    surer = longer.shares > shorter.shares[place] + np.uint8(1)
    return np.asarray(surer | ~same)


def _most_frequent(kept: dict[int, _Counted], entries: int) -> dict[int, _Counted]:
    """The `entries` contexts that most files agree on, of equals the surest, then the shortest, by hash."""
    files = np.concatenate([counted.files for counted in kept.values()])
    shares = np.concatenate([counted.shares for counted in kept.values()])
    chosen = np.zeros(len(files), dtype=bool)
    chosen[np.lexsort((-shares.astype(int), -files))[:entries]] = True  # stable: what is left is in order
    ends = np.cumsum([len(counted.files) for counted in kept.values()])[:-1]
    return {
        length: _pick(counted, mask)
        for (length, counted), mask in zip(kept.items(), np.split(chosen, ends), strict=True)
    }


def _pick(counted: _Counted, chosen: NDArray[np.bool_]) -> _Counted:
    return _Counted(
        hashes=counted.hashes[chosen],
        tokens=counted.tokens[chosen],
        shares=counted.shares[chosen],
        files=counted.files[chosen],
        shorter=counted.shorter[chosen],
    )


def _order(counted: _Counted) -> Order:
    return Order(hashes=counted.hashes, tokens=counted.tokens, shares=counted.shares)
