import hashlib
import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from engine.core import errors
from engine.core.control import Control
from engine.files.model_files import Store
from engine.files.transfer import Listener
from engine.jobs.model_file_service import take
from tests.helpers.seedvr2 import tiny_config, tiny_dit_config, write_dit, write_vae
from tests.helpers.servers import published, store_of
from tests.helpers.wan import tiny_wan_config, write_wan


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "from a friend" / "my: model.safetensors"
    path.parent.mkdir()
    write_dit(path, dtype=torch.float16)
    return path


@pytest.fixture
def store(tmp_path: Path, model: Path) -> Store:
    """`model` is the published file."""
    return store_of(tmp_path / "models", None, published(model.read_bytes()))


@pytest.fixture
def strange(tmp_path: Path) -> Store:
    """`model` is none of the published files."""
    return store_of(tmp_path / "models", None, published())


def names(store: Store) -> set[str]:
    return {p.name for p in store.folder.iterdir() if p.suffix not in (".json", ".lock")}


def test_a_linked_file_stays_where_it_is(store: Store, model: Path) -> None:
    state, _ = take(model, "link", store, Listener())
    assert (state.state, state.borrowed, state.path) == ("here", True, model)
    assert names(store) == set()
    store.remove("tiny")
    assert model.exists()
    assert store.state("tiny").state == "missing"


def test_another_file_becomes_the_users_own_with_a_warning(strange: Store, model: Path) -> None:
    state, notice = take(model, "copy", strange, Listener())
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    assert (state.id, state.kind, state.precision) == (f"own-{digest[:12]}", "dit", "fp16")
    assert (state.models, state.state, state.is_own) == (("seedvr2-3b",), "here", True)
    assert notice is not None
    assert notice.code == "own-weights"
    assert f"own-{digest[:8]}-my_ model.safetensors" in names(strange)
    assert strange.ready(state.id).read_bytes() == model.read_bytes()
    strange.remove(state.id)
    assert names(strange) == {".locks"}
    assert [known.id for known in strange.states()] == ["tiny"]


def test_a_published_file_is_known_by_its_content_and_replaces_a_wrong_one(
    store: Store, model: Path
) -> None:
    inside = store.folder / "renamed.safetensors"
    inside.parent.mkdir()
    inside.write_bytes(model.read_bytes())
    state, _ = take(inside, "copy", store, Listener())
    assert (state.state, state.path, state.borrowed) == ("here", inside, False)
    inside.unlink()
    store.target("tiny.safetensors").write_bytes(b"wrong")
    state, notice = take(model, "copy", store, Listener())
    assert (state.id, state.state, state.borrowed, notice) == ("tiny", "here", False, None)
    assert store.ready("tiny").read_bytes() == model.read_bytes()
    (aside,) = store.folder.glob("*.damaged-*")
    assert aside.read_bytes() == b"wrong"
    assert names(store) == {"tiny.safetensors", ".locks", aside.name}


def test_files_without_a_model_are_refused(store: Store, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "what.safetensors"
    with pytest.raises(errors.WeightsMissing):
        take(path, "copy", store, Listener())
    with pytest.raises(errors.WeightsUnreadable, match="is a folder"):
        take(tmp_path, "copy", store, Listener())
    for content in (
        b"",
        b"<!doctype html>",
        b"GGUF but not really",
        b"version https://git-lfs.github.com/spec/v1",
        bytes(4000),
        model.read_bytes()[:-3],
    ):
        path.write_bytes(content)
        with pytest.raises(errors.EngineError) as caught:
            take(path, "copy", store, Listener())
        assert caught.value.hint
        assert path.name in caught.value.message
    assert "incomplete" in caught.value.message
    assert not store.folder.exists()


def test_another_model_is_refused_by_its_name(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "pictures.safetensors"
    save_file({"decoder.up.0.weight": np.ones((2, 2), np.float32)}, path)
    with pytest.raises(errors.WrongModel, match="a VAE for single images, which Upreel does"):
        take(path, "copy", store, Listener())
    save_file({"who.knows": np.ones((2, 2, 2), np.float32), "b": np.ones(1)}, path)
    with pytest.raises(errors.WrongModel, match="no model that Upreel knows"):
        take(path, "copy", store, Listener())


def test_one_small_tensor_is_no_text_embedding(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "anything.safetensors"
    save_file({"x": np.ones((8, 8), np.float32)}, path)
    for mode in ("copy", "link"):
        with pytest.raises(errors.WrongModel, match="8 values wide"):
            take(path, mode, store, Listener())
    assert not store.folder.exists()


def test_a_model_of_any_kind_needs_all_its_tensors_in_their_shapes(
    strange: Store, tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    writers: list[Callable[[], object]] = [
        *(partial(write_dit, path, tiny_dit_config(kind)) for kind in ("3b", "7b")),
        partial(write_vae, path, tiny_config(latent_channels=16)),
        *(partial(write_wan, path, tiny_wan_config(kind)) for kind in ("2.1", "2.2", "2x")),
    ]
    for write in writers:
        write()
        take(path, "link", strange, Listener())
        with safe_open(path, "np") as file:
            names = file.keys()
            metadata, right = file.metadata(), {name: file.get_tensor(name) for name in names}
        bias = next(name for name in right if name.endswith("bias"))
        for kind, wrong in (
            (errors.MissingKeys, {name: v for name, v in right.items() if name != bias}),
            (errors.ExtraKeys, right | {f"{bias}.more": right[bias]}),
            (errors.WrongShapes, right | {bias: np.ones(7, np.float32)}),
        ):
            save_file(wrong, path, metadata)
            with pytest.raises(kind, match="model"):
                take(path, "link", strange, Listener())


class Hostile:
    """Makes a file when it is unpickled with code."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.proof),)


@pytest.mark.parametrize("form", ["zip", "bare", "large"])
def test_code_in_a_file_is_never_run(store: Store, tmp_path: Path, form: str) -> None:
    proof = tmp_path / "it ran"
    for name in ("pos_emb.pt", "model.ckpt", "model.safetensors"):
        path = tmp_path / name
        if form == "bare":
            path.write_bytes(pickle.dumps(Hostile(proof), protocol=2))
        else:
            torch.save({"state_dict": Hostile(proof)}, path)
        if form == "large":  # as large as a model: sparse, so it takes no space
            with path.open("r+b") as file:
                file.truncate(70 * 10**6)
        for mode in ("copy", "link"):
            with pytest.raises(errors.WeightsError) as caught:
                take(path, mode, store, Listener())
            assert path.name in caught.value.message
            assert caught.value.hint
    assert not proof.exists()
    assert not store.folder.exists()
    if form == "zip":
        with path.open("rb") as file:
            torch.load(file, weights_only=False)
        assert proof.exists(), "elsewhere the file does harm"


def test_an_embedding_of_torch_is_taken(strange: Store, tmp_path: Path) -> None:
    path = tmp_path / "pos_emb.pt"
    torch.save(torch.ones(5, 5120, dtype=torch.bfloat16), path)
    state, notice = take(path, "copy", strange, Listener())
    assert (state.kind, state.precision, len(state.models)) == ("text", "bf16", 3)
    assert notice is not None


def test_a_stopped_or_impossible_copy_leaves_nothing(
    store: Store, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control()
    control.cancel()
    with pytest.raises(errors.Cancelled):
        take(model, "copy", store, Listener(control=control))
    monkeypatch.setattr(Store, "free_bytes", lambda _: 10)
    with pytest.raises(errors.DiskFull):
        take(model, "copy", store, Listener())
    assert names(store) == {".locks"}


def test_a_vae_of_wan_is_taken_as_the_users_own(strange: Store, tmp_path: Path) -> None:
    for layout, model in (("2.1", "wan21-vae"), ("2.2", "wan22-vae"), ("2x", "wan-2x")):
        path = tmp_path / f"{model}.safetensors"
        write_wan(path, tiny_wan_config(layout), dtype=torch.bfloat16)
        state, notice = take(path, "link", strange, Listener())
        assert (state.kind, state.models, state.precision) == ("vae", (model,), "bf16")
        assert notice is not None
        assert strange.best_vae(model) == state
