"""Fixtures of tests that run against a real target server with a toy behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from lsp_bench import Bench, lsp_serving
from lsp_clients import Client, connected
from serving import Serving, serving
from toy_serving import ToyTarget, toy_served, toy_vocabulary

from drafts.vocabulary import Vocabulary
from lsp_server.settings import LspSettings


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


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with lsp_serving(LspSettings(port=0, max_document_bytes=1000, max_clients=2)) as running:
        yield running


@pytest.fixture
async def editor(bench: Bench) -> AsyncIterator[Client]:
    async with connected(bench.port) as client:
        await client.begin()
        yield client
