"""From a folder of weights to a model that the engine can run: device, dtype, attention, packed weights, vocabulary.

Knows nothing of requests; where folders come from is `store`'s business.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import torch
from safetensors import SafetensorError

from drafts.vocabulary import Vocabulary
from target_server.adoption import ProbePass, adopt, mixes_experts, probe_tokens
from target_server.errors import ModelUnavailable, UnsupportedModel
from target_server.fusing import fuse
from target_server.kv_cache import LayerShape
from target_server.packing import pack_linears
from target_server.settings import TargetSettings
from target_server.store import Located

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A causal LM in memory, ready for an `Engine`.

    name: what it was asked for by; a path is cut to its last part.
    revision: the hub's commit, or a digest of the configuration and the sizes of the weight files.
    hf: the transformers module; layers: what each of its attention layers stores for a token.
    vocabulary_size: rows of the logits, padding included; `vocabulary.size` is without.
    context_tokens: that the model was made for.
    dtype: "float32", "bfloat16" or "float16"; device: "cpu", "cuda:0" …
    """

    name: str
    revision: str
    hf: Any
    layers: tuple[LayerShape, ...]
    vocabulary: Vocabulary
    vocabulary_size: int
    context_tokens: int
    dtype: str
    device: str


def load(located: Located, settings: TargetSettings) -> LoadedModel:
    """Load a model folder as the settings ask. Blocks for seconds.

    Raises UnusableVocabulary, ModelUnavailable where the folder holds no readable causal LM, UnsupportedModel where
    it holds one that the engine can't run.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]  # it would run into the log
    vocabulary = Vocabulary.load(located.folder)
    device = choose_device(settings.device)
    dtype = choose_dtype(settings.dtype, device)
    read: Any = AutoModelForCausalLM.from_pretrained  # its annotations leave out the pair that it answers here
    try:
        hf, found = read(located.folder, dtype=dtype, local_files_only=True, output_loading_info=True)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelUnavailable(
            f"{located.name} can't be loaded as a causal language model ({_first_line(error)})",
            remedy="check that its folder holds config.json and complete weights of an architecture transformers knows",
        ) from error
    if found["missing_keys"]:  # transformers would go on with random ones
        raise ModelUnavailable(
            f"{located.name} lacks {len(found['missing_keys'])} of its weights", remedy="fetch or copy its folder again"
        )
    hf = hf.to(device).eval().requires_grad_(False)
    config = hf.config.get_text_config()
    context_tokens = getattr(config, "max_position_embeddings", None)
    if not isinstance(context_tokens, int):
        raise UnsupportedModel(located.name, "its configuration states no max_position_embeddings")
    layers = adopt(hf, name=located.name)
    if settings.parity == "strict" and mixes_experts(hf):
        raise UnsupportedModel(
            located.name,
            "each of its experts gets as many rows as are routed to it, so that a token's logits may depend on other "
            'requests; target.parity = "fast" serves it all the same',
        )
    probe = probe_tokens(hf)
    fused = fuse(hf, lambda: hf(input_ids=probe, use_cache=False, slipstream=ProbePass()).logits)
    packed = pack_linears(hf, rows=settings.block_rows)
    log.info(
        "model loaded",
        model=located.name,
        dtype=_name(dtype),
        device=str(device),
        joint_products=fused.products,
        fused_norms=fused.norms,
        packed_layers=packed,
    )
    return LoadedModel(
        name=located.name,
        revision=located.revision or _digest(located.folder),
        hf=hf,
        layers=layers,
        vocabulary=vocabulary,
        vocabulary_size=hf.get_output_embeddings().out_features,
        context_tokens=context_tokens,
        dtype=_name(dtype),
        device=str(device),
    )


def choose_device(asked: str) -> torch.device:
    """The device of a setting. Raises ModelUnavailable where it isn't there."""
    if asked == "auto":
        asked = "cuda:0" if torch.cuda.is_available() else "cpu"
    device = torch.device(asked)
    if device.type == "cuda" and not (torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()):
        raise ModelUnavailable(
            f"device {asked} isn't there", remedy='set target.device to "auto" or "cpu", or mend the driver'
        )
    return device


def choose_dtype(asked: str, device: torch.device) -> torch.dtype:
    """The dtype of a setting; "auto" is bfloat16 only where it is multiplied natively, since emulation is slower.

    Native is what the processor has and oneDNN may use: ONEDNN_MAX_CPU_ISA can forbid it.
    """
    if asked != "auto":
        chosen: torch.dtype = getattr(torch, asked)
        return chosen
    if device.type != "cpu":
        return torch.bfloat16
    native = (
        getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()
        or getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)()
    )
    allowed = native and torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001 - there is no public name for it
    return torch.bfloat16 if allowed else torch.float32


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _digest(folder: Path) -> str:
    """16 hex digits over the configuration and the weight files' names and sizes; contents would take too long."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for path in sorted(folder.glob("*.safetensors")) + sorted(folder.glob("*.bin")):
        digest.update(f"{path.name}:{path.stat().st_size};".encode())
    return digest.hexdigest()[:16]


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:200] if lines else type(error).__name__
