"""Which drafter serves a language: made on first use, kept while in use. Knows no requests and no servers.

State lives here: the tables in memory, at most `settings.loaded_tables`, and which ones failed, so that each failure is
said once. A table that can't be used costs its language the n-gram half of its drafts and nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from pathlib import Path
from threading import Lock

import structlog

from decoding.drafting import Drafter, DraftingRequest
from drafts import fingerprint, table_file
from drafts.errors import TableMismatch, UnusableTable
from drafts.guessing import Guesser
from drafts.languages import KNOWN_LANGUAGES, PLAINTEXT
from drafts.lookup import LookupGuesser
from drafts.mix import GuesserFactory, GuessingDrafter
from drafts.ngram import TableGuesser
from drafts.settings import KINDS, DraftSettings
from drafts.table import Table
from drafts.vocabulary import Vocabulary

SHIPPED_TABLES = Path(__file__).parent / "tables"

_log = structlog.get_logger()


class DrafterRegistry:
    """Drafters by language, for one target's vocabulary. Safe to use from several threads."""

    def __init__(self, settings: DraftSettings, vocabulary: Vocabulary) -> None:
        self._settings = settings
        self._vocabulary = vocabulary
        self._folder = settings.tables or SHIPPED_TABLES
        self._tables: OrderedDict[str, Table] = OrderedDict()
        self._failed: set[str] = set()
        self._mismatched = False
        self._lock = Lock()

    def for_language(self, language: str) -> Drafter:
        """The drafter that settings choose for a language; one named "none", which never drafts, where they say so."""
        kind = self._settings.kinds.get(language, self._settings.kind)
        return self._of_kind(language, kind)

    def named(self, language: str, name: str) -> Drafter | None:
        """A drafter of a language by its name, None for a name that no drafter of the language has."""
        drafter = self._of_kind(language, name) if name in KINDS else None
        return drafter if drafter and drafter.name == name else None

    def listing(self) -> tuple[tuple[str, str], ...]:
        """(language, name) of all that `named` finds for the known languages; loads their tables to be sure."""
        languages = (*KNOWN_LANGUAGES, PLAINTEXT)
        drafting = (kind for kind in KINDS if kind != "none")
        return tuple((language, kind) for kind in drafting for language in languages if self.named(language, kind))

    def _of_kind(self, language: str, kind: str) -> Drafter:
        """A drafter of a kind; lookup where that needs a table and the language has none that can be used."""
        if kind == "none":
            return self._drafter("none")
        table = None if kind == "lookup" else self._table(language)
        if table is None:
            return self._drafter("lookup", self._lookup)
        tabled = partial(_table_guesser, table)
        return self._drafter("ngram", tabled) if kind == "ngram" else self._drafter("mix", self._lookup, tabled)

    def _lookup(self, request: DraftingRequest) -> Guesser:
        return LookupGuesser(request, self._settings)

    def _drafter(self, name: str, *guessers: GuesserFactory) -> Drafter:
        return GuessingDrafter(name, guessers, least_confidence=self._settings.least_confidence)

    def _table(self, language: str) -> Table | None:
        with self._lock:
            if language in self._tables:
                self._tables.move_to_end(language)
                return self._tables[language]
            if language in self._failed or language not in KNOWN_LANGUAGES:
                return None
            path = self._folder / f"{language}{table_file.SUFFIX}"
            if not path.exists() and self._settings.tables is None:
                return None  # no table ships for this language: nothing is wrong
            try:
                table = self._bound(table_file.load(path))
            except (UnusableTable, TableMismatch) as error:
                # Tables ship together: with another target's tokenizer all of them mismatch, which one line says.
                known = isinstance(error, TableMismatch) and self._mismatched
                self._mismatched = self._mismatched or isinstance(error, TableMismatch)
                self._failed.add(language)
                say = _log.debug if known else _log.warning
                say("table_unusable", language=language, reason=str(error), drafting="lookup")
                return None
            self._tables[language] = table
            while len(self._tables) > self._settings.loaded_tables:
                self._tables.popitem(last=False)
            return table

    def _bound(self, table: Table) -> Table:
        """The table, if its token ids mean what the target's mean. Raises TableMismatch."""
        difference = self._vocabulary.difference(table.tokenizer)
        if difference:
            raise TableMismatch(
                f"tokenizer of table {table.language} ({difference})",
                expected=self._vocabulary.fingerprint[:16],
                got=fingerprint.combined(table.tokenizer)[:16],
                remedy=table_file.rebuild_hint(table.language),
            )
        return table


def _table_guesser(table: Table, request: DraftingRequest) -> Guesser:
    return TableGuesser(table, request.prompt)
