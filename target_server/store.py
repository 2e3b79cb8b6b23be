"""Where models lie: the default one in the cache, a folder, or a hub's snapshot. Finds them; `fetching` brings them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from target_server.errors import ModelUnavailable

DEFAULT = "default"
MANIFEST = "manifest.json"
FETCH_REMEDY = "run `slipstream models fetch default`"
HUB_FILES = ("*.json", "*.safetensors", "*.jinja", "tokenizer.model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A model's folder. name: as asked, a path cut to its last part. revision: a commit or digest, "" if unknown."""

    name: str
    folder: Path
    revision: str


def locate(model: str, cache: Path, *, revision: str = "") -> Located:
    """The folder of a model by setting: "default", a path, or a hub id (which may download).

    Raises ModelUnavailable.
    """
    if model == DEFAULT:
        return _default(cache)
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelUnavailable(
                f"{folder.name} holds no config.json", remedy="name a folder that transformers saved a model to"
            )
        return Located(name=folder.resolve().name, folder=folder, revision="")
    if folder.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1:
        raise ModelUnavailable(f"there is no model folder {folder.name}", remedy="check target.model")
    return _from_hub(model, revision)


def manifest_of(folder: Path) -> dict[str, Any] | None:
    """What was written when a fetched model was complete; None where it isn't, by the sizes of its files."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        whole = all((folder / name).stat().st_size == file["bytes"] for name, file in manifest["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return manifest if whole else None


def _default(cache: Path) -> Located:
    folder = cache / "models" / DEFAULT
    manifest = manifest_of(folder)
    if manifest is None:
        state = "is incomplete" if folder.exists() else "has not been fetched"
        raise ModelUnavailable(f"the default model {state}", remedy=FETCH_REMEDY)
    return Located(name=DEFAULT, folder=folder, revision=str(manifest["revision"]))


def _from_hub(model: str, revision: str) -> Located:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(model, revision=revision or None, allow_patterns=list(HUB_FILES)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ModelUnavailable(
            f"no folder {model}, and the hub did not give it ({type(error).__name__})",
            remedy="check the name, target.revision and the network, or name a local folder",
        ) from error
    return Located(name=model, folder=folder, revision=folder.name)
