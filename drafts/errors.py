"""What can be wrong with a vocabulary or a table, under the errors of `decoding`.

InvalidSetting
└── UnusableVocabulary   tokenizer files that can't serve a byte-exact code completion
Mismatch
└── TableMismatch        a table built for another tokenizer; says what differs and how to rebuild
SlipstreamError
└── UnusableTable        a table file that is missing, damaged or of another format
"""

from __future__ import annotations

from decoding.errors import InvalidSetting, Mismatch, SlipstreamError


class UnusableVocabulary(InvalidSetting):
    """Tokenizer files are missing, damaged, or of a kind whose tokens have no exact bytes."""


class TableMismatch(Mismatch):
    """A table of token ids was built for another tokenizer than the target's."""


class UnusableTable(SlipstreamError):
    """A table file can't be used; lookup drafting still works without it."""

    def __init__(self, name: str, problem: str, *, remedy: str) -> None:
        super().__init__(f"table {name}: {problem}; {remedy}")
        self.name = name
        self.problem = problem
        self.remedy = remedy
