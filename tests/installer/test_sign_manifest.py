import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine import __version__
from engine.delivery import manifest
from installer import sign_manifest

ROOT = Path(__file__).parents[2]
Output = pytest.CaptureFixture[str]
SETUP = f"upreel-{__version__}-setup.exe"


class ReleaseFolder:
    """A folder with a setup, notes and a key."""

    def __init__(self, folder: Path, capsys: Output) -> None:
        self.folder, self._capsys = folder, capsys
        (folder / SETUP).write_bytes(b"MZ" * 1000)
        (folder / "NOTES.md").write_text("- Faster.\n", "utf-8")
        self.public = self.make_key("key")

    def run(self, *arguments: str | Path) -> int:
        status: int = sign_manifest.main([str(text) for text in arguments])
        output = self._capsys.readouterr()
        self.out, self.err = output.out.strip(), output.err.strip()
        return status

    def make_key(self, name: str) -> str:
        assert self.run("make-key", "--out", self.folder / name) == 0
        return self.out

    def sign(self, *keys: str) -> int:
        named = [text for key in keys or ["key"] for text in ("--key", self.folder / key)]
        more = ("--notes", self.folder / "NOTES.md", "--out", self.folder)
        return self.run("sign", *named, "--setup", self.folder / SETUP, *more)

    def verify(self, *keys: str) -> int:
        named = [text for key in keys for text in ("--public", key)]
        return self.run("verify", *named, self.folder / "update.json")


@pytest.fixture
def release(tmp_path: Path, capsys: Output) -> ReleaseFolder:
    return ReleaseFolder(tmp_path, capsys)


def test_sign_and_verify(release):
    assert release.sign() == 0
    day = datetime.now(UTC).date() + timedelta(days=182)
    assert release.out == f"Upreel {__version__}, 2,000 bytes, notes in en, expires on {day}"
    assert release.verify(release.public) == 0
    assert release.out.endswith("signed and complete")
    (release.folder / "NOTES.zh_CN.md").write_text("- 更快。\n", "utf-8")
    new = release.make_key("new")
    assert release.sign("key", "new") == 0  # while one key replaces the other
    assert f"notes in en, zh_CN, expires on {day}" in release.out
    assert "更快" in (release.folder / "update.json").read_text("utf-8")
    assert release.verify(release.public) == release.verify(new) == 0


def test_a_description_is_renewed_before_it_expires(release):
    release.sign()
    file = release.folder / "update.json"
    old = json.loads(file.read_text("utf-8")) | {"counter": 1_700_000_000, "expires": "2024-05-30"}
    content = json.dumps(old).encode()
    file.write_bytes(content)
    key = sign_manifest.read_key(release.folder / "key")
    (release.folder / "update.json.sig").write_bytes(sign_manifest.signatures(content, [key]))
    assert release.verify(release.public) == 1
    assert "expired on 2024-05-30" in release.err
    assert release.run("renew", "--key", release.folder / "key", file) == 0
    assert release.verify(release.public) == 0
    new = json.loads(file.read_text("utf-8"))
    changed = {name for name in old if old[name] != new[name]}
    assert changed == {"counter", "expires"}
    assert new["counter"] > old["counter"]


def test_a_key_is_for_one_user_and_never_overwritten(release):
    path = release.folder / "key"
    before = path.read_bytes()
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o077 == 0
    assert release.public not in before.decode()
    assert release.run("make-key", "--out", path) == 1
    assert "never overwritten" in release.err
    assert path.read_bytes() == before


def test_a_changed_setup_or_description_or_another_key_is_refused(release):
    release.sign()
    other = release.make_key("other")
    assert release.verify(other) == 1
    assert "not signed" in release.err
    assert release.verify(other, release.public) == 0
    (release.folder / SETUP).write_bytes(b"MZ" * 999 + b"MX")
    assert release.verify(release.public) == 1
    assert "is not the setup" in release.err
    (release.folder / SETUP).unlink()
    assert release.verify(release.public) == 1
    assert "is not next to" in release.err
    text = (release.folder / "update.json").read_text("utf-8")
    (release.folder / "update.json").write_text(text.replace("Faster", "Foster"), "utf-8")
    assert release.verify(release.public) == 1
    assert "not signed" in release.err


def test_invalid_keys_notes_and_setups_are_refused(release):
    (release.folder / "key").write_text("not a key", "utf-8")
    assert release.sign() == 1
    assert "holds no private key" in release.err
    assert "not a key" not in release.err
    release.make_key("second")
    (release.folder / "NOTES.md").write_text(" \n", "utf-8")
    assert release.sign("second") == 1
    assert "notes are empty" in release.err
    other = release.folder / "upreel-0.0.1-setup.exe"
    other.write_bytes(b"MZ")
    options = ("--notes", ROOT / "README.md", "--out", release.folder)
    assert release.run("sign", "--key", release.folder / "second", "--setup", other, *options) == 1
    assert f"not {SETUP}" in release.err
    assert not (release.folder / "update.json").exists()


def test_address_and_keys_are_filled_in(release):
    file = release.folder / "update.toml"
    before = (ROOT / "resources" / "update.toml").read_text("utf-8")
    file.write_text(before, "utf-8")
    options = ("--address", "https://example.org/update.json", "--public", release.public)
    assert release.run("fill", *options, "--public", "ab" * 32, "--file", file) == 0
    expected = manifest.UpdateSource(
        address="https://example.org/update.json", keys=(release.public, "ab" * 32)
    )
    assert manifest.source_in(file) == expected
    assert file.read_text("utf-8").startswith(before.partition("\naddress")[0])  # comments stay


def test_fill_accepts_only_what_the_program_accepts(release):
    file, empty = release.folder / "update.toml", 'address = ""\nkeys = []\n'
    file.write_text(empty, "utf-8")
    for address, key in (
        ("http://example.org/update.json", "ab" * 32),
        ('https://example.org/"\nkeys = []', "ab" * 32),
        ("", "ab" * 32),
        ("https://example.org/update.json", "AB" * 32),
    ):
        assert release.run("fill", "--address", address, "--public", key, "--file", file) == 1
        assert file.read_text("utf-8") == empty
