from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.core.control import Control
from engine.core.errors import CheckpointMismatch, HashMismatch, WeightsMissing
from engine.files.model_files import Store
from engine.pipeline.model_file_check import check_weights
from engine.protocol.events import Event, StageProgress
from engine.protocol.plan import WeightsPlan
from tests.helpers.servers import CONTENT, published, store_of


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    store = store_of(tmp_path / "models", None, published())
    monkeypatch.setattr("engine.files.catalogue.catalogue", lambda: store.catalogue)
    monkeypatch.setenv("UPREEL_MODELS", str(store.folder))
    store.folder.mkdir()
    store.target("tiny.safetensors").write_bytes(CONTENT)
    return store


def job(path: Path, heard: list[Event] | None = None, *, of_latents: bool = False) -> Any:
    """A job that was planned with the file as it is now."""
    now = path.stat()
    times = {"bytes": now.st_size, "modified_ns": now.st_mtime_ns}
    files = (WeightsPlan(path=path, published="tiny", **times),)
    work = SimpleNamespace(weights_files=() if of_latents else files)
    latent = SimpleNamespace(vae=files[0]) if of_latents else None
    plan = SimpleNamespace(passes=(work,), latent=latent)
    events = SimpleNamespace(emit=(heard if heard is not None else []).append)
    return SimpleNamespace(job_id="a", plan=plan, events=events, control=Control())


def test_a_file_that_nobody_has_read_is_read_before_the_first_frame(store: Store) -> None:
    heard: list[Event] = []
    check_weights(job(store.target("tiny.safetensors"), heard))
    assert store.state("tiny").state == "here"
    assert any(isinstance(event, StageProgress) for event in heard)
    heard.clear()
    check_weights(job(store.target("tiny.safetensors"), heard))
    assert not any(isinstance(event, StageProgress) for event in heard), "it was read already"


def test_a_corrupted_file_is_never_loaded(store: Store) -> None:
    for of_latents in (False, True):
        store.target("tiny.safetensors").write_bytes(CONTENT[:-1] + b"?")
        with pytest.raises(HashMismatch):
            check_weights(job(store.target("tiny.safetensors"), of_latents=of_latents))


def test_a_file_that_has_gone_or_changed_since_the_plan_is_said(store: Store) -> None:
    path = store.target("tiny.safetensors")
    planned = job(path)
    path.unlink()
    with pytest.raises(WeightsMissing):
        check_weights(planned)
    path.write_bytes(CONTENT)
    with pytest.raises(CheckpointMismatch):
        check_weights(planned)


def test_the_file_that_was_read_is_loaded(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planned with a copy of ComfyUI, which is wrong; meanwhile our own, right one came."""
    borrowed = tmp_path / "comfy" / "vae" / "tiny.safetensors"
    borrowed.parent.mkdir(parents=True)
    borrowed.write_bytes(b"wrong")
    monkeypatch.setenv("UPREEL_COMFYUI", str(tmp_path / "comfy"))
    with pytest.raises(CheckpointMismatch):
        check_weights(job(borrowed))
