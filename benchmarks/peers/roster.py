"""Who is measured: each engine's environment, worker and settings. Data, and where the weights lie."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import Environment, ggml_options, processor_features
from target_server.fetching import SMOLLM2, fetch
from target_server.store import DEFAULT, locate

GGUF = "model.gguf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One engine. environment: None is our own.

    weights: "name" (of the model, in our settings), "folder" (bfloat16 safetensors) or "gguf".
    variants: settings to choose from by trial; without a trial the first counts.
    """

    name: str
    worker: str
    weights: str
    variants: tuple[Mapping[str, Any], ...]
    environment: Environment | None = None
    ours: bool = False


LLAMA = Environment(
    name="llama",
    environ={
        "CMAKE_ARGS": f"{ggml_options(processor_features())} -DLLAMA_CURL=OFF -DLLAVA_BUILD=OFF",
        # A wheel from elsewhere, or kept from an earlier build, was built with options that nobody knows.
        "PIP_NO_BINARY": "llama-cpp-python",
        "PIP_NO_CACHE_DIR": "1",
    },
)
# vLLM says that its speculation is much slower on other OpenMPs than Intel's, which it installs, and asks for tcmalloc.
VLLM = Environment(
    name="vllm",
    unwanted=("torchvision", "torchaudio", "torchcodec"),
    preloaded=("lib/libiomp5.so", "tcmalloc_minimal"),
)

OURS = Contestant(
    name="slipstream", worker="with_slipstream", weights="name", variants=({"drafting": True},), ours=True
)
ROSTER = (
    OURS,
    Contestant(
        name="slipstream plain", worker="with_slipstream", weights="name", variants=({"drafting": False},), ours=True
    ),
    Contestant(
        name="transformers lookup",
        worker="with_transformers",
        weights="folder",
        variants=({"dtype": "float32", "draft_tokens": 10}, {"dtype": "bfloat16", "draft_tokens": 10}),
    ),
    Contestant(
        name="vllm n-gram",
        worker="with_vllm",
        weights="folder",
        environment=VLLM,
        variants=({"dtype": "bfloat16", "draft_tokens": 5}, {"dtype": "float32", "draft_tokens": 5}),
    ),
    Contestant(
        name="llama.cpp", worker="with_llama", weights="gguf", environment=LLAMA, variants=({"draft_tokens": 0},)
    ),
    Contestant(
        name="llama.cpp lookup",
        worker="with_llama",
        weights="gguf",
        environment=LLAMA,
        variants=({"draft_tokens": 2}, {"draft_tokens": 10}),
    ),
)


def weights(kind: str, *, cache: Path, folder: Path) -> str:
    """What a worker is told to load. `folder` keeps the GGUF file, which our own cache has converted and dropped.

    Raises ModelUnavailable, CorruptDownload.
    """
    match kind:
        case "gguf":
            kept = fetch(SMOLLM2, folder, name="default-gguf", report=lambda _: None, convert=_keep)
            return str(kept / GGUF)
        case "folder":
            return str(locate(DEFAULT, cache).folder)
        case _:
            return DEFAULT


def _keep(gguf: Path, folder: Path) -> None:
    shutil.copyfile(gguf, folder / GGUF)
