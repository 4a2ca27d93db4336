import sys
import tomllib
from pathlib import Path

import pytest

from engine import __version__
from engine.core.errors import UpdateNotInBuild
from engine.delivery import manifest

ROOT = Path(__file__).parents[3]
KEY = "ab" * 32


@pytest.fixture(autouse=True)
def _no_address_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPREEL_UPDATES", raising=False)


def fill(resources: Path, address: str, *keys: str) -> None:
    words = ", ".join(f'"{key}"' for key in keys)
    text = f'address = "{address}"\nkeys = [{words}]\n'
    (resources / "update.toml").write_text(text, encoding="utf-8")


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert __version__ == project["version"]
    assert not manifest.is_newer(__version__, __version__)  # it can be compared


def test_the_sources_look_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not manifest.source().is_here
    monkeypatch.setenv("UPREEL_UPDATES", "https://example.org/update.json")
    assert not manifest.source().is_here  # without a key nothing could be verified


def test_a_release_names_address_and_keys(resources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(resources, "https://example.org/update.json", KEY)
    assert manifest.source() == manifest.UpdateSource(
        address="https://example.org/update.json", keys=(KEY,)
    )
    monkeypatch.setenv("UPREEL_UPDATES", "http://127.0.0.1:8000/update.json")
    assert manifest.source().address == "http://127.0.0.1:8000/update.json"
    assert manifest.source().keys == (KEY,)  # whoever sets the environment brings no key along


def test_the_address_has_to_be_encrypted(resources: Path) -> None:
    plain = ("http://example.org/a", "ftp://example.org/a", "file:///a")
    for address in (*plain, "/a", "https:///a", "http://[:"):
        fill(resources, address, KEY)
        with pytest.raises(UpdateNotInBuild, match="not an https:// address"):
            manifest.source()


def test_a_missing_or_damaged_file_is_reported(resources: Path) -> None:
    (resources / "update.toml").unlink()
    with pytest.raises(UpdateNotInBuild):
        manifest.source()
    for text in ("address =", "keys = 3", 'keys = ["ab"]', 'keys = ["ABAB"]'):
        (resources / "update.toml").write_text(text, encoding="utf-8")
        with pytest.raises(UpdateNotInBuild, match="damaged"):
            manifest.source()


def test_only_what_a_setup_installed_is_updated_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert manifest.installed_as() == "sources"
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "upreel.exe"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert manifest.installed_as() == "portable"
    (tmp_path / "uninstall.exe").touch()
    assert manifest.installed_as() == "portable"  # there are no setups for it
    monkeypatch.setattr(sys, "platform", "win32")
    assert manifest.installed_as() == "setup"
