"""`models convert swiftvr` on the real engine: what is said before, what is installed after."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from engine.cli.main import main
from engine.files.model_files import Store
from engine.models.swiftvr.files import files_of, is_converted, products_of
from engine.protocol.model_file_state import Converted
from engine.settings.schema import JobSettings
from tests.helpers.servers import published, store_of
from tests.helpers.swiftvr import write_swiftvr

Output = pytest.CaptureFixture[str]
SETTINGS = JobSettings(model="swiftvr")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """All three files, as if they were the published ones."""
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path / "models"))
    tiny = write_swiftvr(tmp_path / "models")
    formats = tuple(Converted(format=one, bytes=10**6) for one in ("bf16", "int8"))
    kinds = {"dit": tiny.dit, "vae": tiny.vae, "text": tiny.text}
    ids = {"dit": "swiftvr-fp32", "vae": "swiftvr-vae", "text": "swiftvr-prompt"}
    files = [
        published(
            path.read_bytes(),
            id=ids[kind],
            kind=kind,
            models=("swiftvr",),
            precision="fp32",
            filename=path.name,
            bytes=path.stat().st_size,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            converts_to=formats if kind == "dit" else (),
        )
        for kind, path in kinds.items()
    ]
    store = store_of(tmp_path / "models", None, *files)
    monkeypatch.setattr("engine.files.catalogue.catalogue", lambda: store.catalogue)
    return store


def test_a_converted_file_is_installed_and_taken(store: Store, capsys: Output) -> None:
    assert not is_converted(files_of("swiftvr", SETTINGS, store).dit)
    assert main(["models", "convert", "swiftvr"]) == 0
    said = capsys.readouterr()
    assert "needs at most 1.0 MB" in said.err
    assert "swiftvr_transformer_bf16.safetensors is installed as own-" in said.out
    found = files_of("swiftvr", SETTINGS, store)
    assert is_converted(found.dit)
    assert found.text is None
    assert store.state("swiftvr-fp32").is_here


def test_the_format_of_products_decides_between_several(store: Store, capsys: Output) -> None:
    for kind in ("int8", "bf16"):
        assert main(["models", "convert", "swiftvr-fp32", "--to", kind]) == 0
    for wanted, kind in (("none", "none"), ("int8", "int8"), ("fp8", "none")):
        found = files_of("swiftvr", JobSettings(model="swiftvr", matmul=wanted), store)
        assert products_of(found.dit) == kind
    found = files_of("swiftvr", JobSettings(matmul="int8"), store, refused=("int8",))
    assert products_of(found.dit) == "none"


def test_the_published_file_may_go_afterwards(store: Store, capsys: Output) -> None:
    assert main(["models", "convert", "swiftvr", "--to", "int8", "--remove-original"]) == 0
    assert not store.state("swiftvr-fp32").is_here
    assert products_of(files_of("swiftvr", SETTINGS, store).dit) == "int8"


def test_other_formats_and_files_are_refused(store: Store, capsys: Output) -> None:
    assert main(["models", "convert", "swiftvr", "--to", "q4"]) != 0
    assert "cannot be converted to q4" in capsys.readouterr().err
    assert main(["models", "convert", "swiftvr-vae"]) != 0
    assert "used as it is" in capsys.readouterr().err
    assert main(["models", "convert", "fancy"]) != 0
    store.target(store.state("swiftvr-prompt").filename).unlink()
    assert main(["models", "convert", "swiftvr"]) != 0
    assert "swiftvr-prompt" in capsys.readouterr().err
