from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from drafts.table import SHARES, Order, Table, hash_of, hashes_of
from drafts.table_file import load, save

IDS = st.integers(0, 2**32 - 1)


@given(tokens=st.lists(IDS, max_size=30), length=st.integers(1, 6))
def test_many_hashes_are_the_hashes_of_each(tokens: list[int], length: int) -> None:
    each = [hash_of(tokens[start : start + length]) for start in range(len(tokens) - length + 1)]
    assert hashes_of(np.array(tokens, dtype=np.uint64), length).tolist() == each


@st.composite
def tables(draw: st.DrawFn) -> Table:
    orders = {}
    for length in draw(st.sets(st.integers(1, 6), max_size=3)):
        hashes = sorted(draw(st.sets(IDS, max_size=20)))
        tokens = draw(st.lists(IDS, min_size=len(hashes), max_size=len(hashes)))
        shares = draw(st.lists(st.integers(0, SHARES - 1), min_size=len(hashes), max_size=len(hashes)))
        orders[length] = Order(
            hashes=np.array(hashes, dtype=np.uint32),
            tokens=np.array(tokens, dtype=np.uint32),
            shares=np.array(shares, dtype=np.uint8),
        )
    return Table(language="python", tokenizer={"merges": "ab"}, orders=orders)


@given(table=tables())
@settings(max_examples=150, deadline=None)
def test_a_table_survives_its_file(table: Table) -> None:
    with tempfile.TemporaryDirectory() as folder:
        again = load(save(table, Path(folder)))
    assert again.tokenizer == table.tokenizer
    assert again.orders.keys() == table.orders.keys()
    for length, order in table.orders.items():
        for column in ("hashes", "tokens", "shares"):
            expected, got = getattr(order, column), getattr(again.orders[length], column)
            assert got.dtype == expected.dtype
            assert got.tolist() == expected.tolist()


@given(contexts=st.dictionaries(st.tuples(IDS, IDS), IDS, min_size=1, max_size=30))
def test_the_longest_known_context_answers(contexts: dict[tuple[int, int], int]) -> None:
    by_hash = {hash_of(context): token for context, token in contexts.items()}
    hashes = np.array(sorted(by_hash), dtype=np.uint32)
    two = Order(
        hashes=hashes,
        tokens=np.array([by_hash[value] for value in hashes.tolist()], dtype=np.uint32),
        shares=np.full(len(hashes), 9, dtype=np.uint8),
    )
    last = next(iter(contexts))[-1]
    one = Order(
        hashes=np.array([hash_of([last])], dtype=np.uint32),
        tokens=np.array([5], dtype=np.uint32),
        shares=np.array([3], dtype=np.uint8),
    )
    table = Table(language="python", tokenizer={}, orders={1: one, 2: two})
    for context in contexts:
        assert table.next((7, *context)) == (by_hash[hash_of(context)], 9, 2)
    assert table.next([last]) == (5, 3, 1)
    assert table.next([]) is None
