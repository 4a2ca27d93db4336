"""The hashed locks for Windows, as far as they can be checked without a package index."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from engine.runtimes.catalogue import load
from installer import check_lock as lock

ROOT = Path(__file__).parents[2]
HASHES = " \\\n    --hash=sha256:" + "a" * 64
NONE: frozenset[str] = frozenset()


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies of the locks that a test may damage."""
    for name in lock.TOOLS:
        text = (ROOT / "installer" / name).read_text("utf-8")
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.setattr(lock, "FOLDER", tmp_path)
    return tmp_path


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def answering(monkeypatch: pytest.MonkeyPatch, status: int, error: str) -> list[list[str]]:
    """Let uv fail like this or write the present locks; its calls."""
    calls: list[list[str]] = []
    texts = {name: (ROOT / "installer" / name).read_text("utf-8") for name in lock.TOOLS}

    def run(command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        if "--generate-hashes" in command:
            name = Path(command[command.index("compile") + 1]).name
            Path(command[command.index("--output-file") + 1]).write_text(texts[name], "utf-8")
        return subprocess.CompletedProcess(command, status, "", error)

    monkeypatch.setattr(lock.subprocess, "run", run)
    return calls


def test_the_locks_are_correct() -> None:
    locks = lock.check_files()
    program = {pin.name: pin for pin in locks["windows.lock"]}
    assert program["torch"].version == "2.13.0"
    assert "pywin32-ctypes" in program, "PyInstaller needs it on Windows only"
    assert all(pin.hashes for pins in locks.values() for pin in pins)
    assert not {"pytest", "hypothesis"} & set(program), "a release has no tools of tests"


def test_the_nvidia_runtimes_are_of_the_torch_that_is_packed() -> None:
    known = load(ROOT / "resources" / "runtime.toml")
    program = {pin.name: pin.version for pin in lock.check_files()["windows.lock"]}
    python = "cp" + lock.RELEASE[1].replace(".", "")
    assert (known.torch, known.python) == (program["torch"], python)
    for runtime in known:
        assert runtime.torch.partition("+")[0] == program["torch"]
        assert all(f"-{python}-{python}-win_amd64" in wheel.filename for wheel in runtime.wheels)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--index-url https://packages.invalid/simple", "is no pin"),
        ("--extra-index-url https://packages.invalid/simple", "is no pin"),
        ("left @ https://packages.invalid/left.whl", "is no pin"),
        ("left==1.0 # https://packages.invalid", "is no pin"),
        ("left==1.0", "is no pin with hashes"),
        ("left>=1.0 \\", "is no pin"),
        ("left==1.0 ; sys_platform == 'linux' \\", "is no pin"),
        ("left==1.0 \\", "in the middle"),
        ("left==1.0 \\\n    --hash=md5:" + "a" * 32, "is no hash"),
        ("left==1.0 \\\n    --hash=sha256:" + "a" * 63, "is no hash"),
        ("left==1.0 \\\nright==1.0" + HASHES, "is no hash"),
        ("    --hash=sha256:" + "a" * 64, "is no pin"),
        ("triton==3.4.0" + HASHES, "triton cannot be on Windows"),
        ("nvidia-nccl-cu12==2.27" + HASHES, "nvidia-nccl-cu12 cannot be on Windows"),
        ("torch==2.13.0" + HASHES, "is listed twice"),
    ],
)
def test_invalid_lines_of_a_lock(
    copies: Path, line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with (copies / "windows.lock").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    assert lock.main([]) == lock.WRONG
    output = capsys.readouterr().err
    assert "windows.lock: " in output
    assert message in output


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("check_lock --write", "--index-url https://packages.invalid", "the header"),
        ("torch==2.13.0", "torch==2.13.1", "torch is 2.13.1, required: ==2.13.0"),
        ("\ntorch==", "\ntorch-of-another==", "torch is missing"),
        ("\npyinstaller==", "\nanother==", "pyinstaller is missing"),
    ],
)
def test_a_lock_that_does_not_meet_pyproject(
    copies: Path, old: str, new: str, message: str
) -> None:
    replace(copies / "windows.lock", old, new)
    with pytest.raises(lock.LockError, match=message):
        lock.check_files()


def test_both_locks_have_the_same_version_of_shared_packages(copies: Path) -> None:
    version = next(p.version for p in lock.check_files()["windows.lock"] if p.name == "packaging")
    replace(copies / "windows-tests.lock", f"packaging=={version}", "packaging==1.0")
    with pytest.raises(lock.LockError, match="packaging differs"):
        lock.check_files()


def test_a_missing_lock(copies: Path) -> None:
    (copies / "windows.lock").unlink()
    assert lock.main([]) == lock.WRONG


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("error: Failed to fetch: `https://packages.invalid/simple/torch/`", 3),
        ("  Caused by: error sending request for url", 3),
        ("Because torch was not found in the cache and network was disabled", 3),
        ("error: Hash mismatch for `numpy==2.4.1`", 1),
        ("No solution found: torch==2.13.0 has no wheels with a matching platform tag", 1),
        ("No module named uv", 1),
    ],
)
def test_a_missing_index_differs_from_a_wrong_lock(
    copies: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: str,
    status: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answering(monkeypatch, 2, error)
    assert lock.main([]) == status
    output = capsys.readouterr().err
    assert output.startswith("not checked: no index" if status == 3 else "wrong: ")
    assert "packages.invalid" not in output, "no address of an index in a log"


def test_an_index_that_does_not_answer(copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(lock.subprocess, "run", run)
    assert lock.main([]) == lock.NOT_CHECKED


def test_the_index_is_queried_for_windows_and_for_development(
    copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = answering(monkeypatch, 0, "")
    assert lock.main([]) == lock.CORRECT
    installs = [" ".join(call) for call in calls if "install" in call]
    assert all("--dry-run --require-hashes" in call for call in installs)
    assert "x86_64-pc-windows-msvc --python-version 3.12" in installs[0]
    assert "--python-version 3.11" in installs[1]
    assert all(call[-2:] == ["--only-binary", ":all:"] for call in calls)
    compiled = [call for call in calls if "compile" in call]
    assert not any(str(copies) in call[call.index("--output-file") + 1] for call in compiled)


def test_changes_of_a_lock() -> None:
    old = [lock.Pin("left", "1.0", frozenset("ab")), lock.Pin("right", "2.0", frozenset("c"))]
    grown = lock.Pin("right", "2.0", frozenset("cd"))
    assert lock.changes(old, [grown, old[0]]) == [], "a file that was published later"
    assert lock.changes([grown], old[1:]) == ["right 2.0 has no file with d"]
    assert lock.changes(old, old[:1]) == ["right 2.0 -> -"]
    assert lock.changes(old[:1], old) == ["right - -> 2.0"]
    newer = lock.Pin("left", "1.1", frozenset("a"))
    assert lock.changes(old, [newer, old[1]]) == ["left 1.0 -> 1.1"]


def test_a_hash_without_a_published_file_is_wrong(
    copies: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, 0, "")
    (first, *_) = sorted(lock.check_files()["windows.lock"][0].hashes)
    replace(copies / "windows.lock", first, "0" * 64)
    assert lock.main([]) == lock.WRONG
    assert "has no file with 000" in capsys.readouterr().err


def test_other_versions_that_are_installed_here_are_listed() -> None:
    pins = [lock.Pin("packaging", "0.1", NONE), lock.Pin("not-installed-anywhere", "1", NONE)]
    (line,) = lock.differences(pins)
    assert line.startswith("differs here: packaging ")
    assert line.endswith(", locked 0.1")


def test_names_are_compared_in_canonical_form() -> None:
    pins = [lock.Pin("pyside6-essentials", "6.11.0", NONE)]
    assert lock.problems(pins, [Requirement("PySide6_Essentials>=6.9,<6.12")]) == []


def test_the_entries_of_some_packages_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert lock.main(["--print", "pynacl", "pytest"]) == lock.CORRECT
    pins = lock.parse(lock.HEADER + capsys.readouterr().out)
    assert [pin.name for pin in pins] == ["pynacl", "pytest"]
    assert lock.main(["--print", "left-pad"]) == lock.WRONG
    assert "not locked: left-pad" in capsys.readouterr().err
