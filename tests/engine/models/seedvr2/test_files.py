from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from engine.files.model_files import Store
from engine.models.seedvr2.files import files_of
from engine.protocol.model_file_state import PublishedState
from engine.settings.schema import JobSettings

GIB = 2**30
AUTO = JobSettings()


class Here(Store):
    """Our folder with some published files in it, whole and not read yet."""

    def __init__(self, folder: Path, *names: str) -> None:
        super().__init__(folder)
        folder.mkdir()
        for file_id in names:
            (folder / self.catalogue.file(file_id).filename).touch()

    def standings_of(self, file_ids: Collection[str]) -> dict[str, PublishedState]:
        return {one: self._seen(state) for one, state in super().standings_of(file_ids).items()}

    def _seen(self, state: PublishedState) -> PublishedState:
        path = self.folder / state.filename
        return replace(state, state="unverified", path=path) if path.exists() else state


def dit_of(store: Store, model: str, gpu_gib: float, settings: JobSettings = AUTO) -> str:
    return files_of(model, settings, store, gpu_bytes=int(gpu_gib * GIB)).dit.published


@pytest.fixture(autouse=True)
def heads_of_empty_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.seedvr2.files._dit_config", lambda _: None)
    monkeypatch.setattr("engine.models.seedvr2.files._vae_config", lambda _: None)


def test_with_nothing_here_it_is_the_file_that_suits_the_gpu(tmp_path: Path) -> None:
    store = Here(tmp_path / "m")
    for model in ("seedvr2-7b", "seedvr2-7b-sharp"):
        sizes = ((0, "q4"), (12, "q4"), (15.9, "int8"), (22.9, "fp16"), (32, "fp16"))
        for gib, wanted in sizes:
            assert dit_of(store, model, gib) == f"{model}-{wanted}"
    for gib, wanted in ((0, "q8"), (8, "q8"), (12, "fp16"), (24, "fp16")):
        assert dit_of(store, "seedvr2-3b", gib) == f"seedvr2-3b-{wanted}"
    found = files_of("seedvr2-7b", AUTO, store, gpu_bytes=12 * GIB)
    assert not found.dit.is_here
    assert 4e9 < found.dit.bytes < 6e9
    assert found.missing == ("seedvr2-7b-q4", *REST)


REST = ("seedvr2-vae-fp16", "seedvr2-text")


def test_what_is_here_is_taken_first(tmp_path: Path) -> None:
    cases = [
        (("fp16",), 16, "fp16"),  # nothing is loaded while something is here
        (("q4",), 24, "q4"),
        (("fp8",), 16, "fp8"),
        (("fp16", "q4"), 12, "q4"),  # both are here: the one that suits
        (("fp16-comfy",), 16, "fp16-comfy"),  # so is the copy of another program
        (("fp16-comfy", "q4"), 24, "fp16-comfy"),
        (("fp16", "q4"), 24, "fp16"),
        (("fp16", "fp8"), 16, "fp16"),  # neither suits best: the most exact one
    ]
    for number, (here, gib, wanted) in enumerate(cases):
        for rest in (REST, ()):
            names = (f"seedvr2-7b-{name}" for name in here)
            store = Here(tmp_path / f"{number}{len(rest)}", *names, *rest)
            assert dit_of(store, "seedvr2-7b", gib) == f"seedvr2-7b-{wanted}", (here, gib)
    store = Here(tmp_path / "requested", "seedvr2-7b-q4", *REST)
    requested = JobSettings(precision="fp16")
    assert dit_of(store, "seedvr2-7b", 8, requested) == "seedvr2-7b-fp16"
    store = Here(tmp_path / "comfyui", "seedvr2-7b-fp16-comfy", "seedvr2-vae-pth")
    found = files_of("seedvr2-7b", requested, store)
    assert (found.dit.published, found.vae.published) == (
        "seedvr2-7b-fp16-comfy",
        "seedvr2-vae-pth",
    )
    assert found.missing == ("seedvr2-text",)
