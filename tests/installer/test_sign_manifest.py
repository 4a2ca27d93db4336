"""From a new key to a description that the program takes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine import __version__
from engine.updates import build
from installer import sign_manifest

ROOT = Path(__file__).parents[2]
Output = pytest.CaptureFixture[str]
SETUP = f"upreel-{__version__}-setup.exe"


class Desk:
    """A folder with a setup, notes and a key."""

    def __init__(self, folder: Path, capsys: Output) -> None:
        self.folder, self._capsys = folder, capsys
        (folder / SETUP).write_bytes(b"MZ" * 1000)
        (folder / "NOTES.md").write_text("- Faster.\n", "utf-8")
        self.public = self.made("key")

    def run(self, *words: str | Path) -> int:
        status: int = sign_manifest.main([str(word) for word in words])
        said = self._capsys.readouterr()
        self.out, self.err = said.out.strip(), said.err.strip()
        return status

    def made(self, name: str) -> str:
        assert self.run("make-key", "--out", self.folder / name) == 0
        return self.out

    def sign(self, *keys: str) -> int:
        named = [word for key in keys or ["key"] for word in ("--key", self.folder / key)]
        more = ("--notes", self.folder / "NOTES.md", "--out", self.folder)
        return self.run("sign", *named, "--setup", self.folder / SETUP, *more)

    def verify(self, *keys: str) -> int:
        named = [word for key in keys for word in ("--public", key)]
        return self.run("verify", *named, self.folder / "update.json")


@pytest.fixture
def desk(tmp_path: Path, capsys: Output) -> Desk:
    return Desk(tmp_path, capsys)


def test_sign_and_verify(desk: Desk) -> None:
    assert desk.sign() == 0
    assert desk.out == f"Upreel {__version__}, 2,000 bytes, notes in en"
    assert desk.verify(desk.public) == 0
    assert desk.out.endswith("signed and whole")


def test_chinese_notes_lie_beside(desk: Desk) -> None:
    (desk.folder / "NOTES.zh_CN.md").write_text("- 更快。\n", "utf-8")
    assert desk.sign() == 0
    assert desk.out.endswith("notes in en, zh_CN")
    assert "更快" in (desk.folder / "update.json").read_text("utf-8")


def test_a_key_is_for_one_user_and_never_written_over(desk: Desk) -> None:
    path = desk.folder / "key"
    before = path.read_bytes()
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o077 == 0
    assert desk.public not in before.decode()
    assert desk.run("make-key", "--out", path) == 1
    assert "never written over" in desk.err
    assert path.read_bytes() == before


def test_a_changed_setup_or_description_or_another_key_is_found(desk: Desk) -> None:
    desk.sign()
    other = desk.made("other")
    assert desk.verify(other) == 1
    assert "not signed" in desk.err
    assert desk.verify(other, desk.public) == 0
    (desk.folder / SETUP).write_bytes(b"MZ" * 999 + b"MX")
    assert desk.verify(desk.public) == 1
    assert "is not the setup" in desk.err
    (desk.folder / SETUP).unlink()
    assert desk.verify(desk.public) == 1
    assert "does not lie beside" in desk.err
    text = (desk.folder / "update.json").read_text("utf-8")
    (desk.folder / "update.json").write_text(text.replace("Faster", "Foster"), "utf-8")
    assert desk.verify(desk.public) == 1
    assert "not signed" in desk.err


def test_two_keys_while_one_takes_the_place_of_the_other(desk: Desk) -> None:
    new = desk.made("new")
    assert desk.sign("key", "new") == 0
    assert desk.verify(desk.public) == 0
    assert desk.verify(new) == 0


def test_what_cannot_be_signed(desk: Desk) -> None:
    (desk.folder / "key").write_text("not a key", "utf-8")
    assert desk.sign() == 1
    assert "holds no private key" in desk.err
    assert "not a key" not in desk.err
    desk.made("second")
    (desk.folder / "NOTES.md").write_text(" \n", "utf-8")
    assert desk.sign("second") == 1
    assert "notes are empty" in desk.err
    other = desk.folder / "upreel-0.0.1-setup.exe"
    other.write_bytes(b"MZ")
    words = ("--notes", ROOT / "README.md", "--out", desk.folder)
    assert desk.run("sign", "--key", desk.folder / "second", "--setup", other, *words) == 1
    assert f"would be {SETUP}" in desk.err
    assert not (desk.folder / "update.json").exists()


def test_fill_in_what_a_release_knows(desk: Desk) -> None:
    file = desk.folder / "update.toml"
    before = (ROOT / "resources" / "update.toml").read_text("utf-8")
    file.write_text(before, "utf-8")
    assert desk.run("fill", "--check", "--file", file) == 1
    assert "lacks the address or the keys" in desk.err
    words = ("--address", "https://example.org/update.json", "--public", desk.public)
    assert desk.run("fill", *words, "--public", "ab" * 32, "--file", file) == 0
    assert desk.run("fill", "--check", "--file", file) == 0
    expected = build.UpdateSource(
        address="https://example.org/update.json", keys=(desk.public, "ab" * 32)
    )
    assert build.read(file) == expected
    assert file.read_text("utf-8").startswith(before.partition("\naddress")[0])  # comments stay


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("http://example.org/update.json", "ab" * 32),
        ('https://example.org/"\nkeys = []', "ab" * 32),
        ("", "ab" * 32),
        ("https://example.org/update.json", "AB" * 32),
    ],
)
def test_fill_takes_only_what_the_program_takes(desk: Desk, address: str, key: str) -> None:
    file = desk.folder / "update.toml"
    file.write_text('address = ""\nkeys = []\n', "utf-8")
    assert desk.run("fill", "--address", address, "--public", key, "--file", file) == 1
    assert file.read_text("utf-8") == 'address = ""\nkeys = []\n'
