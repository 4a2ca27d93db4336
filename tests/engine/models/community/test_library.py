"""The library of community models where Python does not have it: brought as a wheel."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from engine.cli.main import main
from engine.core.errors import HashMismatch, LibraryMissing
from engine.files import catalogue as catalogues
from engine.files.catalogue import ModelCatalogue, PublishedFile, catalogue
from engine.files.model_files import Store, download
from engine.files.transfer import Listener
from engine.jobs.model_file_service import take
from engine.models.community.library import spandrel
from engine.models.user_files import describe
from tests.helpers.community import write_network, write_wheel


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_network(tmp_path / "4x_film.pth", upscale=4)


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PublishedFile:
    """A wheel in a folder of the user's; it is the published one."""
    (tmp_path / "downloads").mkdir()
    file = write_wheel(tmp_path / "downloads")
    others = [one for one in catalogue() if one.kind != "library"]
    made = ModelCatalogue(hosts=catalogue().hosts, files=(*others, file))
    monkeypatch.setattr(catalogues, "catalogue", lambda: made)
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path / "models"))
    return file


def _loaded() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.startswith("spandrel")}


@pytest.fixture
def not_installed(
    pinned: PublishedFile, model: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Python has no spandrel of its own, as the packaged program."""
    before, found = _loaded(), PathFinder.find_spec
    own = Path(spandrel().__file__).parents[1]

    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "spandrel":
            path = [entry for entry in sys.path if Path(entry) != own]
        return found(name, path, target)

    monkeypatch.setattr(PathFinder, "find_spec", find_spec)
    for name in before:
        del sys.modules[name]
    spandrel.cache_clear()
    yield
    for name in _loaded():
        del sys.modules[name]
    sys.modules.update(before)
    spandrel.cache_clear()


@pytest.fixture
def wheel(tmp_path: Path, pinned: PublishedFile) -> Path:
    return tmp_path / "downloads" / pinned.filename


@pytest.mark.usefixtures("not_installed")
def test_a_model_is_recognised_once_the_published_wheel_was_imported(
    model: Path, wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "import", str(model)]) == 1
    said = capsys.readouterr().err
    assert "error[library-missing]" in said
    assert wheel.name in said
    renamed = wheel.rename(wheel.with_name("spandrel (1).whl"))
    assert main(["models", "import", str(renamed)]) == 0
    assert (tmp_path / "models" / wheel.name).read_bytes() == renamed.read_bytes()
    renamed.unlink()
    assert main(["models", "import", str(model)]) == 0
    assert "RealESRGAN Compact, 4x" in "".join(capsys.readouterr())
    assert {type(module.__loader__).__name__ for module in _loaded().values()} == {"_WheelModules"}


@pytest.mark.usefixtures("not_installed")
def test_a_stored_wheel_that_was_changed_is_not_run(model: Path, wheel: Path) -> None:
    store = Store()
    take(wheel, "copy", store, Listener())
    stored = store.target(wheel.name)
    stored.write_bytes(stored.read_bytes()[:-1] + b"!")
    with pytest.raises(LibraryMissing) as caught:
        describe(model)
    assert wheel.name in caught.value.hint
    assert not _loaded()


@pytest.mark.usefixtures("not_installed")
@pytest.mark.parametrize(("frozen", "case"), [(False, "sources"), (True, "packed")])
def test_the_error_says_what_to_bring(
    model: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch, *, frozen: bool, case: str
) -> None:
    monkeypatch.setattr(sys, "frozen", frozen, raising=False)
    with pytest.raises(LibraryMissing) as caught:
        describe(model)
    assert caught.value.case == case
    assert wheel.name in caught.value.hint
    assert ("pip install --no-deps spandrel==0.4.2" in caught.value.hint) is not frozen


def _shorter(wheel: Path) -> Path:
    wheel.write_bytes(wheel.read_bytes()[:-1])
    return wheel


def _changed(wheel: Path) -> Path:
    wheel.write_bytes(wheel.read_bytes()[:-1] + b"!")
    return wheel


def _other_version(wheel: Path) -> Path:
    return _shorter(wheel).rename(wheel.with_name("spandrel-0.4.1-py3-none-any.whl"))


def _other_package(wheel: Path) -> Path:
    return _shorter(wheel).rename(wheel.with_name("torch-2.13.0-py3-none-any.whl"))


def _no_wheel_name(wheel: Path) -> Path:
    return _shorter(wheel).rename(wheel.with_name("x.whl"))


@pytest.mark.parametrize(
    ("change", "case"),
    [
        (_shorter, "library-damaged"),
        (_changed, "library-damaged"),
        (_other_version, "library-version"),
        (_other_package, "no-library"),
        (_no_wheel_name, "no-library"),
    ],
)
def test_another_wheel_is_refused_and_not_kept(
    wheel: Path, change: Callable[[Path], Path], case: str
) -> None:
    store, name = Store(), wheel.name
    with pytest.raises(HashMismatch) as caught:
        take(change(wheel), "copy", store, Listener())
    assert caught.value.case == case
    assert name in f"{caught.value.message} {caught.value.hint}"
    assert not list(store.folder.glob("*.whl*"))


def test_a_wheel_is_copied_even_if_it_may_stay_where_it_lies(wheel: Path) -> None:
    state, notice = take(wheel, "link", Store(), Listener())
    assert (state.state, state.borrowed, notice) == ("here", False, None)
    assert state.path == Store().target(wheel.name)


def test_it_is_listed_where_python_lacks_it_and_as_long_as_it_is_here(
    wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed() -> list[str]:
        return [file.state for file in Store().states() if file.kind == "library"]

    assert listed() == []
    take(wheel, "copy", Store(), Listener())
    assert listed() == ["here"]
    Store().remove("spandrel")
    assert listed() == []
    nowhere = SimpleNamespace(find_spec=lambda name: None)
    monkeypatch.setattr("engine.files.model_files.PathFinder", nowhere)
    assert listed() == ["missing"]


def test_it_is_not_downloaded(pinned: PublishedFile) -> None:
    with pytest.raises(LibraryMissing) as caught:
        download(pinned, Store())
    assert pinned.filename in caught.value.hint
