"""What `slipstream doctor` looks at. Each check finds one thing; none raises, none changes anything."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import drafts
from cli import config
from decoding.errors import InvalidSetting, SlipstreamError, TargetUnavailable
from lsp_server.settings import LspSettings
from target_server.settings import TargetSettings

PACKAGES = ("torch", "transformers", "tokenizers", "grpcio", "protobuf", "pygls", "numpy")
LEAST_PYTHON = (3, 11)

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at. `remedy`: what to do, "" where nothing is to be done."""

    name: str
    state: State
    detail: str
    remedy: str = ""


def findings(config_file: Path | None, cache: Path, *, target: str | None) -> Iterator[Finding]:
    """Everything, one after the other. `target`: the address to ask instead of the configured one."""
    yield python()
    yield packages()
    yield processor()
    try:
        configuration = config.load(config_file)
        settings = config.overridden(configuration.lsp, target=target)
    except InvalidSetting as error:
        yield Finding(name="configuration", state="fail", detail=str(error), remedy="mend the file named")
        return
    yield Finding(name="configuration", state="ok", detail=str(configuration.path or "none: defaults"))
    asked = list(servers(configuration.target, settings, cache))
    served = any(finding.name == "target" and finding.state == "ok" for finding in asked)
    yield model(configuration.target, cache, needed=not served)
    yield cache_writable(cache)
    yield tables(configuration.drafts.tables)
    yield from asked


def python() -> Finding:
    found = platform.python_version()
    if sys.version_info < LEAST_PYTHON:
        return Finding(name="python", state="fail", detail=found, remedy="install Python 3.11 or newer")
    return Finding(name="python", state="ok", detail=f"{found} on {platform.system()} {platform.machine()}")


def packages() -> Finding:
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Finding(
            name="packages", state="fail", detail=f"missing: {', '.join(missing)}", remedy="run `make setup` again"
        )
    return Finding(name="packages", state="ok", detail=", ".join(found))


def processor() -> Finding:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: of its shared libraries
        return Finding(
            name="processor",
            state="fail",
            detail=f"torch can't be loaded ({type(error).__name__})",
            remedy="run `make setup` again",
        )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    accelerator = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no accelerator"
    return Finding(
        name="processor",
        state="ok",
        detail=f"{cores} cores, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads, "
        f"{accelerator}",
    )


def model(settings: TargetSettings, cache: Path, *, needed: bool) -> Finding:
    """The configured model; one that is missing is a failure only where no target answers without it."""
    from target_server.errors import ModelUnavailable
    from target_server.store import DEFAULT, FETCH_REMEDY, locate

    if settings.model != DEFAULT and not Path(settings.model).expanduser().is_dir():
        return Finding(name="model", state="warn", detail=f"{settings.model}: a hub id, not looked up here")
    try:
        located = locate(settings.model, cache)
    except ModelUnavailable as error:
        return Finding(name="model", state="fail" if needed else "warn", detail=error.what, remedy=error.remedy)
    damaged = _damaged(located.folder)
    if damaged:
        return Finding(
            name="model", state="fail", detail=f"{', '.join(damaged)} changed since it was fetched", remedy=FETCH_REMEDY
        )
    return Finding(name="model", state="ok", detail=f"{located.name} {located.revision}".rstrip())


def _damaged(folder: Path) -> list[str]:
    """Files of a fetched model that don't have the digest they were written with; a folder of the user's has none."""
    from target_server.store import manifest_of

    manifest = manifest_of(folder) or {"files": {}}
    damaged = []
    for name, file in manifest["files"].items():
        with (folder / name).open("rb") as data:
            if hashlib.file_digest(data, "sha256").hexdigest() != file["sha256"]:
                damaged.append(name)
    return damaged


def cache_writable(cache: Path) -> Finding:
    nearest = next(folder for folder in (cache, *cache.absolute().parents) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        return Finding(
            name="cache", state="fail", detail=f"{cache} can't be written", remedy="set SLIPSTREAM_CACHE to another"
        )
    tokenizers = len(list((cache / "tokenizers").glob("*"))) if cache.is_dir() else 0
    return Finding(name="cache", state="ok", detail=f"{cache}, {tokenizers} tokenizers kept")


def tables(folder: Path | None) -> Finding:
    """Whether the n-gram tables can be read; whether they fit the target's tokenizer shows when it is asked."""
    from drafts import table_file
    from drafts.errors import UnusableTable

    folder = folder or Path(drafts.__file__).parent / "tables"
    paths = sorted(folder.glob(f"*{table_file.SUFFIX}"))
    broken = []
    for path in paths:
        try:
            table_file.load(path)
        except UnusableTable as error:
            broken.append(error)
    if broken:
        return Finding(name="tables", state="fail", detail=str(broken[0]), remedy=broken[0].remedy)
    if not paths:
        return Finding(
            name="tables",
            state="warn",
            detail=f"none in {folder}: drafts come from lookup alone",
            remedy="build some with `slipstream drafts build-table`",
        )
    return Finding(name="tables", state="ok", detail=", ".join(path.stem for path in paths))


def servers(target: TargetSettings, lsp: LspSettings, cache: Path) -> Iterator[Finding]:
    """A target that answers; or else whether one could listen where it is configured to."""
    try:
        yield asyncio.run(_ask(lsp, cache))
        return
    except TargetUnavailable:
        yield Finding(
            name="target",
            state="warn",
            detail=f"none answers at {lsp.target}",
            remedy="start it with `slipstream target`, or set lsp.target",
        )
    except SlipstreamError as error:
        yield Finding(name="target", state="fail", detail=f"{lsp.target}: {error}", remedy="look at the target's log")
        return
    from target_server.ports import listening

    for host, port, field in ((target.host, target.port, "port"), (target.http_host, target.http_port, "http_port")):
        try:
            listening(host, port, field).close()
        except InvalidSetting as error:
            yield Finding(name=f"target.{field}", state="fail", detail=error.problem, remedy=f"set target.{field}")
        else:
            yield Finding(name=f"target.{field}", state="ok", detail=f"{host}:{port} is free")


async def _ask(settings: LspSettings, cache: Path) -> Finding:
    from decoding.noise import NOISE_VERSION
    from lsp_server.connection import ConnectionSettings
    from lsp_server.target_client import TargetClient

    client = TargetClient(
        settings.target,
        cache_folder=cache,
        settings=ConnectionSettings(connect_timeout_s=settings.connect_timeout_ms / 1000),
    )
    try:
        description = await client.describe()
        await client.vocabulary()
    finally:
        await client.close()
    detail = (
        f"{settings.target} serves {description.model_id} {description.model_revision} in {description.dtype} on "
        f"{description.device}, version {description.server_version}"
    )
    if description.noise_version != NOISE_VERSION:
        return Finding(
            name="target",
            state="warn",
            detail=f"{detail}; its noise is {description.noise_version}, ours {NOISE_VERSION}",
            remedy="run the same version on both sides, or receipts won't replay",
        )
    return Finding(name="target", state="ok", detail=detail)
