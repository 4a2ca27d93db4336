"""The hashed locks for Windows, as far as they can be checked without a package index."""

import subprocess
import tomllib
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


def test_the_locks_are_correct_and_their_torch_is_that_of_the_runtimes():
    locks = lock.check_files()
    program = {pin.name: pin for pin in locks["windows.lock"]}
    assert program["torch"].version == "2.13.0"
    assert "pywin32-ctypes" in program, "PyInstaller needs it on Windows only"
    assert all(pin.hashes for pins in locks.values() for pin in pins)
    assert not {"pytest", "hypothesis"} & set(program), "a release has no tools of tests"
    known = load(ROOT / "resources" / "runtime.toml")
    python = "cp" + lock.RELEASE[1].replace(".", "")
    assert (known.torch, known.python) == (program["torch"].version, python)
    for runtime in known:
        assert runtime.torch.partition("+")[0] == known.torch
        assert all(f"-{python}-{python}-win_amd64" in wheel.filename for wheel in runtime.wheels)


# Packages that other programs for SeedVR2 need, and that fail to import or to install on Windows.
AVOIDED = {
    *("flash-attn", "xformers", "sageattention", "bitsandbytes", "triton", "torchvision"),
    *("diffusers", "transformers", "opencv-python", "opencv-python-headless"),
}


def test_no_package_is_needed_that_users_cannot_install():
    names = {pin.name for pins in lock.check_files().values() for pin in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names |= {Requirement(one).name for one in project["dependencies"]}
    assert "torch" in names
    assert not names & AVOIDED


def test_invalid_lines_of_a_lock(copies, capsys):
    path = copies / "windows.lock"
    good = path.read_text("utf-8")
    for line, message in (
        ("--index-url https://packages.invalid/simple", "is no pin"),
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
        ("nvidia-nccl-cu12==2.27" + HASHES, "nvidia-nccl-cu12 cannot be on Windows"),
        ("torch==2.13.0" + HASHES, "is listed twice"),
    ):
        path.write_text(f"{good}{line}\n", "utf-8")
        assert lock.main([]) == lock.WRONG
        output = capsys.readouterr().err
        assert "windows.lock: " in output
        assert message in output
    path.unlink()
    assert lock.main([]) == lock.WRONG


def test_a_lock_that_does_not_meet_pyproject_or_the_other_lock(copies):
    version = next(p.version for p in lock.check_files()["windows.lock"] if p.name == "packaging")
    for name, old, new, message in (
        ("windows", "check_lock --write", "--index-url https://packages.invalid", "the header"),
        ("windows", "torch==2.13.0", "torch==2.13.1", "torch is 2.13.1, required: ==2.13.0"),
        ("windows", "\ntorch==", "\ntorch-of-another==", "torch is missing"),
        ("windows", "\npyinstaller==", "\nanother==", "pyinstaller is missing"),
        ("windows-tests", f"packaging=={version}", "packaging==1.0", "packaging differs"),
    ):
        path = copies / f"{name}.lock"
        good = path.read_text("utf-8")
        assert old in good
        path.write_text(good.replace(old, new, 1), "utf-8")
        with pytest.raises(lock.LockError, match=message):
            lock.check_files()
        path.write_text(good, "utf-8")


def test_a_missing_index_differs_from_a_wrong_lock(copies, monkeypatch, capsys):
    for error, status in (
        ("error: Failed to fetch: `https://packages.invalid/simple/torch/`", lock.NOT_CHECKED),
        ("  Caused by: error sending request for url", lock.NOT_CHECKED),
        ("torch was not found in the cache and network was disabled", lock.NOT_CHECKED),
        ("error: Hash mismatch for `numpy==2.4.1`", lock.WRONG),
        ("torch==2.13.0 has no wheels with a matching platform tag", lock.WRONG),
        ("No module named uv", lock.WRONG),
    ):
        answering(monkeypatch, 2, error)
        assert lock.main([]) == status, error
        output = capsys.readouterr().err
        assert output.startswith("wrong: " if status == lock.WRONG else "not checked: no index")
        assert "packages.invalid" not in output, "no address of an index in a log"

    def run(command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(lock.subprocess, "run", run)
    assert lock.main([]) == lock.NOT_CHECKED


def test_the_index_is_queried_for_both_pythons_and_has_all_hashes(copies, monkeypatch, capsys):
    calls = answering(monkeypatch, 0, "")
    assert lock.main([]) == lock.CORRECT
    installs = [" ".join(call) for call in calls if "install" in call]
    assert all("--dry-run --require-hashes" in call for call in installs)
    assert "x86_64-pc-windows-msvc --python-version 3.12" in installs[0]
    assert "--python-version 3.11" in installs[1]
    assert all(call[-2:] == ["--only-binary", ":all:"] for call in calls)
    compiled = [call for call in calls if "compile" in call]
    assert not any(str(copies) in call[call.index("--output-file") + 1] for call in compiled)
    (first, *_) = sorted(lock.check_files()["windows.lock"][0].hashes)
    path = copies / "windows.lock"
    path.write_text(path.read_text("utf-8").replace(first, "0" * 64, 1), "utf-8")
    assert lock.main([]) == lock.WRONG
    assert "has no file with 000" in capsys.readouterr().err


def test_changes_of_a_lock():
    old = [lock.Pin("left", "1.0", frozenset("ab")), lock.Pin("right", "2.0", frozenset("c"))]
    grown = lock.Pin("right", "2.0", frozenset("cd"))
    assert lock.changes(old, [grown, old[0]]) == [], "a file that was published later"
    assert lock.changes([grown], old[1:]) == ["right 2.0 has no file with d"]
    assert lock.changes(old, old[:1]) == ["right 2.0 -> -"]
    assert lock.changes(old[:1], old) == ["right - -> 2.0"]
    newer = lock.Pin("left", "1.1", frozenset("a"))
    assert lock.changes(old, [newer, old[1]]) == ["left 1.0 -> 1.1"]


def test_differences_and_entries_of_packages_are_printed(capsys):
    pins = [lock.Pin("packaging", "0.1", NONE), lock.Pin("not-installed-anywhere", "1", NONE)]
    (line,) = lock.differences(pins)
    assert line.startswith("differs here: packaging ")
    assert line.endswith(", locked 0.1")
    pins = [lock.Pin("pyside6-essentials", "6.11.0", NONE)]
    assert lock.problems(pins, [Requirement("PySide6_Essentials>=6.9,<6.12")]) == []
    assert lock.main(["--print", "pynacl", "pytest"]) == lock.CORRECT
    pins = lock.parse(lock.HEADER + capsys.readouterr().out)
    assert [pin.name for pin in pins] == ["pynacl", "pytest"]
    assert lock.main(["--print", "left-pad"]) == lock.WRONG
    assert "not locked: left-pad" in capsys.readouterr().err
