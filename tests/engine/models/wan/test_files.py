from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.errors import UnknownWeights, WeightsMissing, WrongModel
from engine.files.model_files import Store
from engine.models.wan.files import WanModel, files_of_wan, wan_config
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22
from tests.helpers.servers import published, store_of
from tests.helpers.wan import tiny_wan_config, write_wan

LAYOUTS: dict[str, WanModel] = {"2.1": "wan21-vae", "2.2": "wan22-vae", "2x": "wan-2x"}


def store_with(folder: Path, *names: str) -> Store:
    files = [
        published(id=name, kind="vae", models=("wan21-vae",), filename=f"{name}.safetensors")
        for name in names
    ]
    return store_of(folder / "models", None, *files)


def test_a_file_of_the_users_is_recognised(tmp_path: Path) -> None:
    store = store_with(tmp_path)
    for layout, model in LAYOUTS.items():
        for suffix in (".safetensors", ".pth"):
            path, config = tmp_path / f"mine{suffix}", tiny_wan_config(layout)
            write_wan(path, config)
            found = files_of_wan(model, str(path), store)
            assert (found.vae.path, found.vae.published, found.missing) == (path, "", ())
            assert found.config == wan_config(found.vae, model) == config


def test_another_vae_of_wan_and_missing_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    with pytest.raises(WeightsMissing):
        files_of_wan("wan-2x", str(path))
    for vae in ("", str(path)):
        with pytest.raises(UnknownWeights, match="not the name of a Wan model"):
            files_of_wan("seedvr2-3b", vae)
    for layout, other in (("2.1", "2.2"), ("2.2", "2.1"), ("2.1", "2x"), ("2x", "2.1")):
        write_wan(path, tiny_wan_config(layout))
        with pytest.raises(WrongModel, match=f"is a Wan {layout} VAE, not a Wan {other} VAE"):
            files_of_wan(LAYOUTS[other], str(path))


def test_without_a_file_the_first_published_one_is_missing(tmp_path: Path) -> None:
    for model, config in (("wan21-vae", WAN21), ("wan22-vae", WAN22), ("wan-2x", WAN2X)):
        found = files_of_wan(model, store=Store(tmp_path))
        assert found.missing == (f"{model}-fp32",)
        assert (found.vae.published, found.vae.is_here) == (f"{model}-fp32", False)
        assert found.config == config


def test_a_published_file_that_is_here_is_taken(tmp_path: Path) -> None:
    store = store_with(tmp_path, "first", "second")
    store.folder.mkdir()
    write_wan(store.target("second.safetensors"))
    found = files_of_wan("wan21-vae", store=store)
    assert (found.vae.published, found.missing) == ("second", ())
    assert found.config == tiny_wan_config()
    write_wan(store.target("first.safetensors"))
    assert files_of_wan("wan21-vae", store=store).vae.published == "first"


def test_heads_are_read_without_torch(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    write_wan(path)
    code = f"""
import sys
from engine.models.wan.files import files_of_wan
print(files_of_wan("wan21-vae", {str(path)!r}).config.dim, "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["8", "False"], done.stderr
