"""The target's tokenizer: fetched once, kept on disk, believed only where it is the one that was announced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_models import save_tokenizer
from toy_server import DESCRIPTION, ToyService, serving

from decoding.errors import ContractViolation, LimitExceeded, Mismatch
from drafts.vocabulary import Vocabulary
from lsp_server.connection import ConnectionSettings
from lsp_server.target_client import TargetClient
from lsp_server.tokenizer_cache import TokenizerCache


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return Vocabulary.load(folder)


@pytest.fixture(scope="module")
def other_vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder, size=400)
    return Vocabulary.load(folder)


def service_of(vocabulary: Vocabulary) -> ToyService:
    description = replace(DESCRIPTION, tokenizer_fingerprint=vocabulary.fingerprint)
    return ToyService(description=description, files=vocabulary.files)


@asynccontextmanager
async def client_of(service: ToyService, cache_folder: Path, **settings: Any) -> AsyncIterator[TargetClient]:
    async with serving(service) as address:
        client = TargetClient(address, cache_folder=cache_folder, settings=ConnectionSettings(**settings))
        yield client
        await client.close()


async def test_it_is_fetched_once_and_then_read_from_disk(tmp_path: Path, vocabulary: Vocabulary) -> None:
    service = service_of(vocabulary)
    async with client_of(service, tmp_path) as client:
        first, second = await asyncio.gather(client.vocabulary(), client.vocabulary())
        assert first is second
    async with client_of(service, tmp_path) as client:
        kept = await client.vocabulary()
    assert service.sent_tokenizers == 1
    assert kept.fingerprint == first.fingerprint == vocabulary.fingerprint
    assert kept.encode("def f():") == vocabulary.encode("def f():")
    assert [entry.name for entry in (tmp_path / "tokenizers").iterdir()] == [vocabulary.fingerprint]


async def test_a_damaged_copy_is_fetched_again(tmp_path: Path, vocabulary: Vocabulary) -> None:
    service = service_of(vocabulary)
    async with client_of(service, tmp_path) as client:
        await client.vocabulary()
    (tmp_path / "tokenizers" / vocabulary.fingerprint / "tokenizer.json").write_text('{"model": {}}')
    async with client_of(service, tmp_path) as client:
        assert (await client.vocabulary()).fingerprint == vocabulary.fingerprint
    assert service.sent_tokenizers == 2


async def test_another_tokenizer_than_announced_is_a_mismatch(
    tmp_path: Path, vocabulary: Vocabulary, other_vocabulary: Vocabulary
) -> None:
    service = service_of(vocabulary)
    service.files = other_vocabulary.files
    async with client_of(service, tmp_path) as client:
        with pytest.raises(Mismatch) as caught:
            await client.vocabulary()
    assert caught.value.expected == vocabulary.fingerprint
    assert other_vocabulary.fingerprint in caught.value.got
    assert not (tmp_path / "tokenizers" / vocabulary.fingerprint).exists()


@pytest.mark.parametrize("name", ["../tokenizer.json", "a/b", ".hidden", "", "con\x00"])
async def test_a_file_name_that_could_leave_the_cache_is_refused(
    tmp_path: Path, vocabulary: Vocabulary, name: str
) -> None:
    service = service_of(vocabulary)
    service.files = {name: b"{}"}
    async with client_of(service, tmp_path) as client:
        with pytest.raises(ContractViolation, match="name"):
            await client.vocabulary()


async def test_a_tokenizer_over_the_limit_is_refused(tmp_path: Path, vocabulary: Vocabulary) -> None:
    service = service_of(vocabulary)
    service.files = {"tokenizer.json": b" " * (2**20 + 1)}
    async with client_of(service, tmp_path, tokenizer_bytes=2**20) as client:
        with pytest.raises(LimitExceeded) as caught:
            await client.vocabulary()
    assert caught.value.limit == 2**20


async def test_a_cache_that_cannot_be_written_costs_only_the_fetch(tmp_path: Path, vocabulary: Vocabulary) -> None:
    (tmp_path / "tokenizers").write_text("a file where the folder should be")
    async with client_of(service_of(vocabulary), tmp_path) as client:
        assert (await client.vocabulary()).fingerprint == vocabulary.fingerprint


def test_the_least_recently_used_tokenizers_go(
    tmp_path: Path, vocabulary: Vocabulary, other_vocabulary: Vocabulary
) -> None:
    (tmp_path / "unfinished-crash").mkdir()
    cache = TokenizerCache(tmp_path, kept=1)
    cache.store(other_vocabulary)
    cache.store(vocabulary)
    assert [entry.name for entry in tmp_path.iterdir()] == [vocabulary.fingerprint]
    assert cache.load(other_vocabulary.fingerprint) is None
    cache.store(vocabulary)
    assert cache.load(vocabulary.fingerprint) == vocabulary
