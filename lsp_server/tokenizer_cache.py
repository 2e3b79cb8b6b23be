"""Targets' tokenizers on disk, by fingerprint, so that each is fetched once. Blocking; knows nothing of gRPC.

A folder appears under its name all at once, and is only believed if what loads from it has that fingerprint.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import structlog

from decoding.errors import SlipstreamError
from drafts.vocabulary import Vocabulary

log = structlog.get_logger()


class TokenizerCache:
    """Keeps at most `kept` tokenizers in `folder`; beyond them the one not used for longest goes.

    Several processes may share the folder. A disk that is full or read-only costs a fetch each time, no more.
    """

    def __init__(self, folder: Path, *, kept: int) -> None:
        self._folder = folder
        self._kept = kept

    def load(self, fingerprint: str) -> Vocabulary | None:
        """None where it isn't kept, or is damaged, and then it is dropped."""
        folder = self._folder / fingerprint
        if not folder.is_dir():
            return None
        try:
            vocabulary = Vocabulary.load(folder)
        except SlipstreamError:
            vocabulary = None
        if vocabulary is None or vocabulary.fingerprint != fingerprint:
            log.warning("tokenizer_damaged", fingerprint=fingerprint)
            shutil.rmtree(folder, ignore_errors=True)
            return None
        try:
            os.utime(folder)  # it was used
        except OSError as error:
            log.debug("tokenizer_not_touched", reason=error.strerror)
        return vocabulary

    def store(self, vocabulary: Vocabulary) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._place(vocabulary)
            self._prune()
        except OSError as error:
            log.warning("tokenizer_not_kept", fingerprint=vocabulary.fingerprint, reason=error.strerror)

    def _place(self, vocabulary: Vocabulary) -> None:
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=self._folder))
        try:
            for name, data in vocabulary.files.items():
                (unfinished / name).write_bytes(data)
            target = self._folder / vocabulary.fingerprint
            if not target.exists():
                unfinished.rename(target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def _prune(self) -> None:
        """What a crash left unfinished goes the same way, when its turn comes."""
        folders = sorted(
            (entry for entry in self._folder.iterdir() if entry.is_dir()),
            key=lambda entry: entry.stat().st_mtime_ns,
            reverse=True,
        )
        for folder in folders[self._kept :]:
            shutil.rmtree(folder, ignore_errors=True)
