import hashlib
import os

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


def test_only_a_newer_version_that_windows_and_updates_can_read_is_released():
    version = project.version()
    release.check_version(f"v{version}", version, [])
    release.check_version("v1.10.0", "1.10.0", ["v1.9.0", "v1.10.0", "vfoo"])
    with pytest.raises(PackagingError, match=r"v1\.10\.0 is newer"):
        release.check_version("v1.9.1", "1.9.1", ["v1.10.0"])
    for tag, version, message in (
        ("v1.2.3", "1.2.4", "the tag is v1.2.3"),
        ("1.2.3", "1.2.3", "the tag is 1.2.3"),
        ("v1.2", "1.2", "not three numbers"),
        ("v1.2.3rc1", "1.2.3rc1", "not three numbers"),
        ("v1.2.3+a", "1.2.3+a", "not three numbers"),
        ("v1.02.3", "1.02.3", "not three numbers"),
        ("v1.2.65535", "1.2.65535", "up to 65534"),
    ):
        with pytest.raises(PackagingError, match=message):
            release.check_version(tag, version, [])


def test_notes_are_the_section_of_this_version_in_a_changelog_that_is_ready():
    assert release.notes(CHANGELOG, "1.10.0") == "### Added\n- A thing."
    for old, new, message in (
        ("## [1.10.0] - 2026-12-01", "## [1.10.0] - not released", "has no section"),
        ("### Added\n- A thing.", "", "has no section"),
        ("## [Unreleased]\n", "## [Unreleased]\n- Not yet.\n", r"lines under \[Unreleased\]"),
        ("1.10.0", "1x10.0", "has no section"),
    ):
        with pytest.raises(PackagingError, match=message):
            release.notes(CHANGELOG.replace(old, new), "1.10.0")


def test_chinese_notes_are_copied(tmp_path, monkeypatch):
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


def test_sums_are_in_the_format_of_sha256sum_unless_a_size_cannot_be_published(tmp_path, capsys):
    (tmp_path / "upreel-1.10.0-setup.exe").write_bytes(b"setup")
    (tmp_path / "upreel-1.10.0-portable.zip").write_bytes(b"zip")
    for name in ("update.json", "update.json.sig"):  # which may be signed again
        (tmp_path / name).write_bytes(b"signed")
    zip_sum, setup_sum = (hashlib.sha256(content).hexdigest() for content in (b"zip", b"setup"))
    lines = [f"{zip_sum}  upreel-1.10.0-portable.zip", f"{setup_sum}  upreel-1.10.0-setup.exe"]
    for _ in range(2):  # the second time with SHA256SUMS in the folder
        assert release.main(["sums", str(tmp_path)]) == 0
        assert (tmp_path / "SHA256SUMS").read_text("ascii").splitlines() == lines
    (tmp_path / "SHA256SUMS").unlink()
    for name, size, message in (
        ("upreel-1.10.0-offline-1.bin", 2**31, "upreel-1.10.0-offline-1.bin has 2,147,483,648"),
        ("update.json", 0, "update.json has 0 bytes"),
        ("upreel-1.9.0-setup.exe", 5, "has 2 setups"),
        ("upreel-1.10.0-setup.exe", 200_000_001, "upreel-1.10.0-setup.exe has 200,000,001 bytes"),
    ):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, size)  # a sparse file
        assert release.main(["sums", str(tmp_path)]) == 1
        assert message in capsys.readouterr().err
        assert not (tmp_path / "SHA256SUMS").exists()
        (tmp_path / name).unlink()


def test_an_error_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(release, "known_tags", list)  # an unpacked archive has no history
    assert release.main(["version", "v0.0.0"]) == 1
    output = capsys.readouterr().err
    assert output.startswith("no release: the tag is v0.0.0, but pyproject.toml has ")
    assert output.count("\n") == 1
