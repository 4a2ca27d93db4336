from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from installer import project, release, sign_manifest
from installer.project import PackagingError

CHANGELOG = """# Changelog

## [Unreleased]

## [1.10.0] - 2026-12-01

### Added
- A thing.

## [1.9.0] - 2026-11-01

### Added
- Another one.
"""


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    (tmp_path / "upreel-1.10.0-setup.exe").write_bytes(b"setup")
    (tmp_path / "upreel-1.10.0-portable.zip").write_bytes(b"zip")
    return tmp_path


def test_the_present_version_can_be_released() -> None:
    version = project.version()
    release.check_version(f"v{version}", version, [])


def test_ten_is_newer_than_nine() -> None:
    release.check_version("v1.10.0", "1.10.0", ["v1.9.0", "v1.10.0", "vfoo"])
    with pytest.raises(PackagingError, match=r"v1\.10\.0 is newer"):
        release.check_version("v1.9.1", "1.9.1", ["v1.10.0"])


@pytest.mark.parametrize(
    ("tag", "version", "message"),
    [
        ("v1.2.3", "1.2.4", "the tag is v1.2.3"),
        ("1.2.3", "1.2.3", "the tag is 1.2.3"),
        ("v1.2", "1.2", "not three numbers"),
        ("v1.2.3rc1", "1.2.3rc1", "not three numbers"),
        ("v1.2.3+a", "1.2.3+a", "not three numbers"),
        ("v1.02.3", "1.02.3", "not three numbers"),
        ("v1.2.65535", "1.2.65535", "up to 65534"),
    ],
)
def test_versions_that_windows_or_updates_would_misread(
    tag: str, version: str, message: str
) -> None:
    with pytest.raises(PackagingError, match=message):
        release.check_version(tag, version, [])


def test_notes_are_the_section_of_this_version() -> None:
    assert release.notes(CHANGELOG, "1.10.0") == "### Added\n- A thing."


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("## [1.10.0] - 2026-12-01", "## [1.10.0]", "has no section"),
        ("### Added\n- A thing.", "", "has no section"),
        ("## [Unreleased]\n", "## [Unreleased]\n- Not yet.\n", r"lines under \[Unreleased\]"),
        ("1.10.0", "1x10.0", "has no section"),
    ],
)
def test_a_changelog_that_is_not_ready(old: str, new: str, message: str) -> None:
    with pytest.raises(PackagingError, match=message):
        release.notes(CHANGELOG.replace(old, new), "1.10.0")


def test_chinese_notes_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.10.0"\n', encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    arguments = ["notes", "--out", str(tmp_path / "NOTES.md")]
    assert release.main(arguments) == 0
    assert not (tmp_path / "NOTES.zh_CN.md").exists()
    (tmp_path / "docs" / "notes").mkdir(parents=True)
    (tmp_path / "docs" / "notes" / "1.10.0.zh_CN.md").write_text("- 新功能。\n", encoding="utf-8")
    assert release.main(arguments) == 0
    assert sign_manifest.notes(tmp_path / "NOTES.md") == {
        "en": "### Added\n- A thing.",
        "zh_CN": "- 新功能。",
    }


def test_sums_in_the_format_of_sha256sum(assets: Path) -> None:
    for _ in range(2):  # the second time with SHA256SUMS in the folder
        assert release.main(["sums", str(assets)]) == 0
        lines = (assets / "SHA256SUMS").read_bytes().decode("ascii").splitlines()
        zip_sum, setup_sum = (hashlib.sha256(content).hexdigest() for content in (b"zip", b"setup"))
        assert lines == [
            f"{zip_sum}  upreel-1.10.0-portable.zip",
            f"{setup_sum}  upreel-1.10.0-setup.exe",
        ]


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("upreel-1.10.0-setup.exe", 200_000_001, "upreel-1.10.0-setup.exe has 200,000,001 bytes"),
        ("upreel-1.10.0-offline-1.bin", 2**31, "upreel-1.10.0-offline-1.bin has 2,147,483,648"),
        ("update.json", 0, "update.json has 0 bytes"),
        ("upreel-1.9.0-setup.exe", 5, "has 2 setups"),
    ],
)
def test_sizes_that_cannot_be_published(
    assets: Path,
    name: str,
    size: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (assets / name).touch()
    os.truncate(assets / name, size)  # a sparse file
    assert release.main(["sums", str(assets)]) == 1
    assert message in capsys.readouterr().err
    assert not (assets / "SHA256SUMS").exists()


def test_an_unmet_requirement_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "known_tags", list)  # an unpacked archive has no history
    assert release.main(["version", "v0.0.0"]) == 1
    output = capsys.readouterr().err
    assert output.startswith("no release: the tag is v0.0.0, but pyproject.toml has ")
    assert output.count("\n") == 1
