"""Records that outlive requests, and are bounded."""

from __future__ import annotations

import pytest

from decoding.errors import InvalidSetting
from decoding.record_book import RecordBook


def test_a_drafter_is_known_from_request_to_request_and_one_target_times_for_all() -> None:
    book = RecordBook()
    python, rust = book.of("python", "mix"), book.of("rust", "mix")
    assert book.of("python", "mix") is python
    assert python is not rust is not book.of("rust", "lookup")
    assert python.record.timings is rust.record.timings is book.timings


def test_the_one_unused_for_longest_makes_room() -> None:
    book = RecordBook(limit=2)
    python, rust = book.of("python", "mix"), book.of("rust", "mix")
    book.of("python", "mix")
    book.of("go", "mix")
    assert book.of("python", "mix") is python
    assert book.of("rust", "mix") is not rust


def test_a_book_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"records\.limit"):
        RecordBook(limit=0)
