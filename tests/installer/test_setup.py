"""Inputs of the setup, without making one; `tests.trials.packaging.check_setup` tries it."""

import re
import zipfile
from pathlib import Path

import pytest

from app.desktop import windows_rules
from app.jobs.file_suffixes import VIDEO_ENDINGS
from installer import build_setup, project, setup_parts

INSTALLER = Path(__file__).parents[2] / "installer"


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    folder = tmp_path / "upreel"
    (folder / "_internal" / "模型").mkdir(parents=True)
    (folder / "_internal" / "empty").mkdir()
    for name in ("upreel.exe", "upreel-cli.exe", "_internal/a.dll", "_internal/模型/片段 1.txt"):
        (folder / name).write_bytes(name.encode())
    return folder


def script() -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted(INSTALLER.glob("setup*.ns*")))


def test_the_list_has_folders_around_their_files_and_the_zip_one_top_folder(payload, tmp_path):
    listed = setup_parts.listing(payload)
    assert listed.longest == len("_internal\\模型\\片段 1.txt")
    assert listed.bytes == sum(p.stat().st_size for p in payload.rglob("*") if p.is_file())
    setup_parts.write_list(listed, tmp_path / "list")
    lines = (tmp_path / "list").read_bytes().decode("utf-16-le").splitlines()
    made = [line for line in lines if line.startswith("+")]
    assert made == ["+_internal", "+_internal\\empty", "+_internal\\模型"]
    assert [line[1:] for line in lines if line.startswith("-")] == [x[1:] for x in made[::-1]]
    files = ["=_internal\\a.dll", "=_internal\\模型\\片段 1.txt", "=upreel-cli.exe", "=upreel.exe"]
    assert lines[len(made) : -len(made)] == files
    target = tmp_path / "upreel-1.2.3-portable.zip"
    setup_parts.write_zip(payload, target)
    with zipfile.ZipFile(target) as packed:
        names = packed.namelist()
        packed.extractall(tmp_path / "unpacked")
    assert {name.partition("/")[0] for name in names} == {"upreel-1.2.3"}
    found = tmp_path / "unpacked" / "upreel-1.2.3" / "_internal" / "模型" / "片段 1.txt"
    assert found.read_bytes() == (payload / "_internal" / "模型" / "片段 1.txt").read_bytes()
    assert not list(tmp_path.glob("*.part"))


def test_names_of_the_setup_and_names_that_are_equal_on_windows_are_refused(payload):
    for name in ("uninstall.exe", "Uninstall.files", "~upreel-new", "~upreel-old"):
        (payload / name).write_bytes(b"")
        with pytest.raises(project.PackagingError, match="uses itself"):
            setup_parts.listing(payload)
        (payload / name).unlink()
    (payload / "Readme").write_bytes(b"")
    (payload / "readme").write_bytes(b"")
    if len(list(payload.iterdir())) == 5:  # they differ on this file system
        with pytest.raises(project.PackagingError, match="capital"):
            setup_parts.listing(payload)


def test_a_payload_without_a_program_is_refused(payload, tmp_path, capsys):
    (payload / "upreel-cli.exe").unlink()
    arguments = ["--payload", str(payload), "--out", str(tmp_path / "out")]
    assert build_setup.main(arguments) == 1
    assert "has no upreel-cli.exe" in capsys.readouterr().err


def test_the_script_agrees_with_the_program(tmp_path):
    assert f'!define GPU_KEY "{windows_rules.KEY}"' in script()
    assert '!define UNINSTALLER "unins' in script(), "the program looks for unins*.exe"
    assert "$LOCALAPPDATA\\Upreel" in script()
    setup_parts.write_types(tmp_path / "types.nsh")
    text = (tmp_path / "types.nsh").read_text(encoding="utf-8")
    assert set(re.findall(r" (\.\w+) ", text)) == VIDEO_ENDINGS >= {".mkv"}
    assert "OPENED_BY .latent Upreel.Latent" in script()
    for version, four in (("0.1.0", "0.1.0.0"), ("1.2", "1.2.0.0"), ("1.2.3.4", "1.2.3.4")):
        assert build_setup.four_numbers(version) == four


def test_arguments_of_makensis(payload, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    options = build_setup.SetupOptions(payload, tmp_path, "1.2.3", is_fast=True)
    arguments = build_setup.makensis_arguments(options, work)
    given = dict(text[2:].partition("=")[::2] for text in arguments if text.startswith("-D"))
    used = set(re.findall(r"\$\{([A-Z0-9_]+)\}", script()))
    assert set(given) - used == {"FAST"}, "defined, but not used"
    assert "-WX" in arguments
    longest = setup_parts.listing(payload).longest
    assert int(given["LONGEST_FOLDER"]) + len("\\~upreel-new\\") + longest == 259
    for name in ("side.bmp", "header.bmp"):
        assert (work / name).read_bytes()[:2] == b"BM"
    for language in ("en", "zh"):
        text = (work / f"licence_{language}.txt").read_bytes()
        assert text.startswith(b"\xef\xbb\xbf")
        assert b"GNU GENERAL PUBLIC LICENSE" in text


def test_every_text_has_both_languages():
    text = (INSTALLER / "setup_text.nsh").read_text(encoding="utf-8").replace("\\\n", "")
    texts = re.findall(r'^!insertmacro TEXT (\w+)\s+"(.*?)"\s+"(.*?)"\s*$', text, re.MULTILINE)
    assert len(texts) == text.count("!insertmacro TEXT ") > 30
    for name, english, chinese in texts:
        assert f"$({name})" in script(), "not used"
        assert sorted(re.findall(r"\$\{?\w+", english)) == sorted(re.findall(r"\$\{?\w+", chinese))
        if name != "WELCOME_TITLE":
            assert re.search(r"[\u4e00-\u9fff]", chinese)


@pytest.mark.programs("makensis")
def test_makensis_has_no_warning(payload, tmp_path, capsys):
    arguments = ["--payload", str(payload), "--out", str(tmp_path), "--fast", "--portable"]
    assert build_setup.main(arguments) == 0, capsys.readouterr().err
    version = project.version()
    names = {path.name for path in tmp_path.glob("[uS]*") if path.is_file()}
    setup = f"upreel-{version}-setup.exe"
    assert names == {setup, f"upreel-{version}-portable.zip", "SHA256SUMS"}
    assert (tmp_path / setup).read_bytes()[:2] == b"MZ"
