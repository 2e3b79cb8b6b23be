"""Finding and loading models: what is wrong is said, with what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from engines import SMALL, settings
from safetensors.torch import load_file, save_file
from tiny_models import random_model, save_tokenizer

from target_server.errors import ModelUnavailable, UnsupportedModel
from target_server.loader import LoadedModel, choose_device, choose_dtype, load
from target_server.store import locate


def test_loaded_model_says_what_it_is(tiny_loaded: LoadedModel) -> None:
    assert (tiny_loaded.name, tiny_loaded.dtype, tiny_loaded.device) == ("tiny", "float32", "cpu")
    assert (tiny_loaded.vocabulary_size, tiny_loaded.context_tokens) == (512, 512)
    assert tiny_loaded.vocabulary.end_of_text_ids == (0,)
    assert len(tiny_loaded.revision) == 16


def test_default_model_that_was_never_fetched(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="has not been fetched; run `slipstream models fetch default`"):
        locate("default", tmp_path)


def test_folders_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="no model folder gone"):
        locate(str(tmp_path / "gone"), tmp_path)
    with pytest.raises(ModelUnavailable, match=r"no config\.json"):
        locate(str(tmp_path), tmp_path)


def test_unknown_hub_id_without_a_network(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; from target_server.store import locate\n"
        "from target_server.errors import ModelUnavailable\n"
        "try: locate('nobody/nothing', Path())\n"
        "except ModelUnavailable as error: print(error)\n"
    )
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("no folder nobody/nothing, and the hub did not give it")
    assert "target.revision" in done.stdout


@pytest.mark.parametrize("harm", ["weights gone", "weights cut", "unknown architecture"])
def test_damaged_folder(tiny_model_folder: Path, tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(tiny_model_folder, folder)
    weights, config = folder / "model.safetensors", folder / "config.json"
    if harm == "weights gone":
        weights.unlink()
    elif harm == "weights cut":
        weights.write_bytes(weights.read_bytes()[:1000])
    else:
        config.write_text(config.read_text().replace('"llama"', '"nonesuch"'))
    with pytest.raises(ModelUnavailable, match="damaged can't be loaded as a causal language model"):
        load(locate(str(folder), tmp_path), SMALL)


def test_weights_that_are_missing_are_not_made_up(tiny_model_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "partial"
    shutil.copytree(tiny_model_folder, folder)
    weights = load_file(folder / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelUnavailable, match="partial lacks 1 of its weights"):
        load(locate(str(folder), tmp_path), SMALL)


def test_model_of_another_make_is_refused(tmp_path: Path) -> None:
    random_model("mamba", state_size=4).save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    with pytest.raises(UnsupportedModel, match="0 of its 2 layers"):
        load(locate(str(tmp_path), tmp_path), SMALL)


def test_device_that_is_not_there() -> None:
    with pytest.raises(ModelUnavailable, match="cuda:99 isn't there"):
        choose_device("cuda:99")


def test_dtype_is_bfloat16_only_where_the_hardware_has_it() -> None:
    assert choose_dtype("float16", torch.device("cpu")) is torch.float16
    assert choose_dtype("auto", torch.device("cuda")) is torch.bfloat16
    assert choose_dtype("auto", torch.device("cpu")) in (torch.float32, torch.bfloat16)


def test_settings_choose_the_dtype(tiny_model_folder: Path) -> None:
    loaded = load(locate(str(tiny_model_folder), tiny_model_folder), settings(dtype="bfloat16"))
    assert (loaded.dtype, loaded.hf.dtype) == ("bfloat16", torch.bfloat16)
