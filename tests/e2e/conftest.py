"""Fixtures of tests that run against a real target server with a toy behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from serving import Serving, serving
from toy_serving import ToyTarget, toy_served, toy_vocabulary

from drafts.vocabulary import Vocabulary


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    """The tiny tokenizer's."""
    return toy_vocabulary(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def target(vocabulary: Vocabulary) -> ToyTarget:
    return ToyTarget(vocabulary)


@pytest.fixture
async def running(vocabulary: Vocabulary, target: ToyTarget) -> AsyncIterator[Serving]:
    """A server that serves `target`."""
    async with serving(toy_served(vocabulary, target)) as started:
        yield started
