"""Steps of check_setup.py: one function for each requirement of the setup.

Each step starts from the state after the one before.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from app.jobs.file_suffixes import VIDEO_ENDINGS
from installer import sign
from installer.build_setup import SetupOptions, make_setup
from tests.trials.packaging.setup_trial import GPU_KEY, SetupTrial, contents
from tests.trials.packaging.trial import UNINSTALL_KEY, TrialFailed, expect
from tools.windows_build.wine import Snapshot

_UPSCALE_LIMIT_S = 900
_LONG_PATH = ";".join([r"%USERPROFILE%\bin", *(rf"C:\a tool {i}\bin" for i in range(150))]) + ";"
_RUNNING, _FOREIGN, _NO_SPACE, _NO_PATH, _HELD, _DAMAGED = 10, 11, 12, 14, 17, 2


def steps(clip: Path | None) -> list[tuple[str, Callable[[SetupTrial], None]]]:
    """All steps in their order; with a clip the installed program upscales it."""
    found: list[tuple[str, Callable[[SetupTrial], None]]] = [
        ("a damaged or cut setup refuses", refuses_damage),
        ("unsuitable folders are refused", refuses_folders),
        ("too little space is refused", refuses_small_drive),
        ("installs into a path with spaces and Chinese letters", installs),
        ("is in Windows' lists", is_listed),
        ("the command line is in the PATH, which is as long as before", is_in_path),
        ("replaces nothing while the program runs", waits_for_program),
        ("closes the window of the program", closes_window),
        ("a locked file: everything is rolled back", rolls_back),
        ("upgrades, removes stale files and keeps the user's", upgrades),
        ("repairs an interrupted upgrade", mends),
        ("runs after the upgrade", runs_new),
        ("moves to another folder", moves),
        ("uninstalls everything except models and settings", uninstalls),
        ("uninstalls with /PURGE everything except results", purges),
        ("signatures are valid until a byte changes", signs),
    ]
    if clip:
        found.insert(-4, ("the installed program upscales a film", lambda t: upscales(t, clip)))
    return found


def refuses_damage(trial: SetupTrial) -> None:
    """A changed byte anywhere, or a missing end."""
    good = trial.setups.new.read_bytes()
    for share in (0.2, 0.5, 0.9, 0.999):
        at = int(len(good) * share)
        bad = trial.setups.new.with_name("damaged.exe")
        bad.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        trial.install(bad, status=_DAMAGED)
    bad.write_bytes(good[:-1000])
    trial.install(bad, status=_DAMAGED)
    bad.unlink()
    expect(not trial.folder.exists(), "a damaged setup installed something")


def refuses_folders(trial: SetupTrial) -> None:
    """Folders with other files, and paths that the program cannot use."""
    folder = trial.wine.drive / "films"
    folder.mkdir()
    (folder / "film.mkv").write_bytes(b"film")
    before = contents(folder)
    new = trial.setups.new
    trial.setup(new, r"/DIR=C:\films", status=_FOREIGN)
    expect(contents(folder) == before, "a folder of the user was changed")
    shutil.rmtree(folder)
    data = trial.wine.path(trial.data)
    for path in ("C:\\", r"\\server\share\Upreel", data, data + r"\program", "C:\\" + "x" * 200):
        trial.setup(new, f"/DIR={path}", status=_NO_PATH)
    expect(not trial.data.exists(), "a refused folder was created")


def refuses_small_drive(trial: SetupTrial) -> None:
    """A drive of one megabyte; only if this user can mount one."""
    mount = trial.wine.prefix / "small"
    mount.mkdir(exist_ok=True)
    small = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)]
    if os.geteuid() or subprocess.run(small, check=False, capture_output=True).returncode:
        print("         not checked: no small drive can be mounted here")
        return
    try:
        folder = trial.wine.path(mount / "Upreel")
        trial.setup(trial.setups.new, f"/DIR={folder}", status=_NO_SPACE)
        expect(not any(mount.iterdir()), "files were left on the small drive")
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def installs(trial: SetupTrial) -> None:
    """The older version."""
    trial.write_value("Environment", "Path", _LONG_PATH, "REG_EXPAND_SZ")
    trial.install(trial.setups.old, "/DESKTOP=1", "/PATH=1")
    _expect_files(trial, trial.setups.old_payload, {})
    _expect_version(trial, "0.0.1")
    out = trial.wine.drive / "written.txt"
    trial.wine.run(trial.folder / "upreel.exe", "--write", r"C:\written.txt")
    expect(out.is_file() and out.read_text() == "0.0.1", "the installed upreel.exe did not run")
    out.unlink()


def is_listed(trial: SetupTrial) -> None:
    """The list of programs, the Start menu, the desktop, Open with."""
    folder = trial.wine.path(trial.folder)
    expected = {
        "DisplayName": "Upreel",
        "DisplayVersion": "0.0.1",
        "InstallLocation": folder,
        "UninstallString": f'"{folder}\\uninstall.exe"',
        "QuietUninstallString": f'"{folder}\\uninstall.exe" /S',
    }
    registry = trial.wine.snapshot(("user.reg",)).registry
    key = rf"user|{UNINSTALL_KEY}|"
    for name, text in expected.items():
        found = registry.get(key + name, "")[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        expect(_letters(found) == _letters(text), f"{name} is {found!r}, not {text!r}")
    size = int(registry[key + "EstimatedSize"].removeprefix("dword:"), 16) * 1024
    real = sum(p.stat().st_size for p in trial.setups.old_payload.rglob("*") if p.is_file())
    expect(abs(size - real) < 2048, f"the size is {size}, not {real}")
    for ending in (*VIDEO_ENDINGS, ".latent"):
        kind = "Latent" if ending == ".latent" else "Film"
        name = rf"user|Software\Classes\{ending}\OpenWithProgids|Upreel.{kind}"
        expect(name in registry, f"Open with lacks {ending}")
        expect(rf"user|Software\Classes\{ending}|@" not in registry, f"{ending} was taken over")
    for menu in ("Desktop", "AppData/Roaming/Microsoft/Windows/Start Menu/Programs"):
        expect((trial.home / menu / "Upreel.lnk").is_file(), f"{menu} has no Upreel")


def is_in_path(trial: SetupTrial) -> None:
    """A PATH longer than a string of NSIS, with variables; the command passes on its status."""
    _expect_path(trial, trial.folder)
    trial.install(trial.setups.old, "/PATH=1")  # once more
    _expect_path(trial, trial.folder)
    done = trial.wine.run(
        "cmd", "/c", trial.wine.path(trial.folder / "bin/upreel.cmd"), "--version"
    )
    expect("0.0.1" in done.stdout, f"upreel.cmd: {(done.stdout + done.stderr)[-500:]!r}")


def waits_for_program(trial: SetupTrial) -> None:
    """A program that keeps running has its own exit status; the setup waits for one that ends."""
    before = contents(trial.folder)
    with trial.running("--sleep", "300"):
        trial.install(trial.setups.new, "/WAIT=1", status=_RUNNING)
        expect(contents(trial.folder) == before, "files of a running program were changed")
        trial.setup(trial.folder / "uninstall.exe", "/WAIT=1", status=0)
        time.sleep(4)  # the uninstaller runs from a copy, whose status is lost
        expect(contents(trial.folder) == before, "a running program was uninstalled")
    with trial.running("--sleep", "6"):
        trial.install(trial.setups.old, "/WAIT=60")


def closes_window(trial: SetupTrial) -> None:
    """As an update does."""
    if not trial.display:
        print("         not checked: Xvfb is not installed")
        return
    with trial.running("--window") as child:
        trial.install(trial.setups.old, "/WAIT=1", status=_RUNNING)
        trial.install(trial.setups.old, "/CLOSE", "/WAIT=30")
        expect(child.wait(20) == 0, "the program did not end when its window was closed")


def rolls_back(trial: SetupTrial) -> None:
    """The older version still works after one of its files could not be moved."""
    before = contents(trial.folder)
    library = trial.folder / "_internal" / "library-0.0.1.dll"
    holder = trial.wine.drive / "holder.exe"
    shutil.copyfile(trial.setups.old_payload / "upreel.exe", holder)
    child = subprocess.Popen(
        [*trial.wine.command(holder), "--hold", trial.wine.path(library)],
        env=trial.wine.environment,
        stdin=subprocess.DEVNULL,
    )
    try:
        time.sleep(2)
        expect(child.poll() is None, "the file is not locked")
        trial.install(trial.setups.new, status=_HELD)
    finally:
        child.kill()
        child.wait()
        holder.unlink()
    after = contents(trial.folder)
    expect(after == before, f"changed: {sorted(set(after.items()) ^ set(before.items()))[:5]}")
    _expect_version(trial, "0.0.1")


def upgrades(trial: SetupTrial) -> None:
    """Over the older version, with the user's files, one of them at the path of a new file."""
    inner = trial.folder / "_internal"
    new_name = next(
        path.relative_to(trial.setups.payload)
        for path in sorted(trial.setups.payload.rglob("*"))
        if path.is_file() and not (trial.setups.old_payload / path.name).exists()
        and not (trial.folder / path.relative_to(trial.setups.payload)).exists()
    )  # fmt: skip
    own_files = {"my notes.txt": b"notes", "_internal/only in 0.0.1/mine.txt": b"mine"}
    for name, data in own_files.items():
        (trial.folder / name).write_bytes(data)
    in_the_way = trial.folder / new_name
    in_the_way.parent.mkdir(parents=True, exist_ok=True)
    in_the_way.write_bytes(b"in the way")
    (trial.home / "Desktop" / "Upreel.lnk").unlink()  # by the user
    trial.setup(trial.setups.new)  # finds the folder of the older one
    kept = {f"{new_name.as_posix()}.kept": b"in the way"}
    _expect_files(trial, trial.setups.payload, own_files | kept)
    expect(not (inner / "library-0.0.1.dll").exists(), "a stale file was left")
    expect(trial.entry("DisplayVersion") == trial.setups.version, "the list has the old version")
    expect(not (trial.home / "Desktop" / "Upreel.lnk").exists(), "the icon came back")
    _expect_path(trial, trial.folder)
    for name in (*own_files, *kept):
        (trial.folder / name).unlink()
    (inner / "only in 0.0.1").rmdir()


def mends(trial: SetupTrial) -> None:
    """Interrupted in the middle: some new files unpacked, some old ones moved away."""
    old, new = trial.folder / "~upreel-old", trial.folder / "~upreel-new"
    for folder in (old, new):
        (folder / "_internal").mkdir(parents=True)
    moved = trial.folder / "upreel.exe"
    moved.rename(old / moved.name)
    (new / "_internal" / "half.dll").write_bytes(b"half")
    trial.setup(trial.setups.new)
    _expect_files(trial, trial.setups.payload, {})


def runs_new(trial: SetupTrial) -> None:
    """The command line of the new version."""
    _expect_version(trial, trial.setups.version)


def upscales(trial: SetupTrial, clip: Path) -> None:
    """With Lite on the processor, from the folder with Chinese letters."""
    film, result = trial.wine.drive / "片段 one.mp4", trial.wine.drive / "片段 two.mp4"
    shutil.copyfile(clip, film)
    arguments = ["upscale", trial.wine.path(film), "-o", trial.wine.path(result), "--model", "lite"]
    done = trial.run_cli(*arguments, "--scale", "2", timeout=_UPSCALE_LIMIT_S)
    output = (done.stdout + done.stderr)[-1500:]
    expect(done.returncode == 0 and result.is_file(), f"status {done.returncode}: {output}")
    print(f"         {result.stat().st_size / 1e6:.2f} MB; {' '.join(output.split())[-200:]}")
    film.unlink()
    result.unlink()
    trial.wine.settle()
    shutil.rmtree(trial.data, ignore_errors=True)  # jobs and logs of this run


def moves(trial: SetupTrial) -> None:
    """To the default folder; the folder before has no file of Upreel afterwards."""
    default = trial.local / "Programs" / "Upreel"
    (trial.folder / "my notes.txt").write_bytes(b"notes")
    trial.setup(trial.setups.new, f"/DIR={trial.wine.path(default)}\\")
    expect(list(contents(trial.folder)) == ["my notes.txt"], "the old folder is not clean")
    expect((default / "upreel.exe").is_file(), "the new folder has no program")
    _expect_path(trial, default)
    shutil.rmtree(trial.folder)
    trial.install(trial.setups.new)
    expect(not default.exists(), "the default folder was left")
    trial.install(trial.setups.new, "/PATH=0")
    _expect_path(trial)
    trial.install(trial.setups.new, "/PATH=1")


def uninstalls(trial: SetupTrial) -> None:
    """Snapshots of files and registry before and after are equal."""
    trial.uninstall(trial.folder)
    _expect_path(trial)
    for folder in (trial.folder, trial.local / "Programs"):
        if folder.exists():
            folder.rmdir()  # raises unless it is empty
    _fill(trial)
    before = trial.snapshot()
    trial.install(trial.setups.old, "/DESKTOP=1", "/PATH=1")
    trial.setup(trial.setups.new)
    program = trial.wine.path(trial.folder / "upreel.exe")
    trial.write_value(GPU_KEY, program, "GpuPreference=2;")
    (trial.data / "Cache").mkdir()
    (trial.data / "Cache" / "rates.json").write_text("{}")
    trial.uninstall(trial.folder)
    _expect_snapshot(trial, before)


def purges(trial: SetupTrial) -> None:
    """All of the data folder except results; the user's file in the program's folder stays.

    So does a user without a PATH stay without one.
    """
    trial.wine.run("reg", "delete", r"HKCU\Environment", "/v", "Path", "/f")
    trial.install(trial.setups.new, "/PATH=1")
    own = trial.wine.path(trial.folder / "bin")
    expect(_letters(trial.user_path()) == own, f"the PATH is {trial.user_path()!r}")
    (trial.folder / "my notes.txt").write_bytes(b"notes")
    trial.uninstall(trial.folder, "/PURGE")
    expect(
        list(contents(trial.folder)) == ["my notes.txt"],
        "the user's file was removed, or Upreel's stayed",
    )
    registry = trial.wine.snapshot(("user.reg",)).registry
    expect("user|Environment|Path" not in registry, "a PATH was left")
    names = sorted(path.name for path in trial.data.iterdir())
    expect(names == ["results"], f"the data folder has {names}")
    expect((trial.data / "results" / "film.mp4").is_file(), "a result was removed")


def signs(trial: SetupTrial) -> None:
    """With a test certificate: programs, uninstaller and setup, which still installs."""
    folder = trial.setups.new.parent / "signed"
    certificate, other = (
        sign.make_test_certificate(folder / "a"),
        sign.make_test_certificate(folder / "b"),
    )
    payload, trusted = folder / "payload", folder / "a" / "test.pem"
    shutil.copytree(trial.setups.old_payload, payload)
    order = SetupOptions(payload=payload, out=folder, version="0.0.1", is_fast=True, is_signed=True)
    expect(not _verifies(trial.setups.old, trusted), "a setup without a signature is valid")
    os.environ.update(
        UPREEL_SIGN_PFX=str(certificate.pfx),
        UPREEL_SIGN_PASSWORD=certificate.password,
        UPREEL_SIGN_TIMESTAMP="none",
    )
    for name in ("upreel.exe", "upreel-cli.exe"):
        sign.sign_files([payload / name])
    make_setup(order)
    expect(_verifies(order.setup, trusted), "the signature is not valid")
    expect(not _verifies(order.setup, folder / "b" / "test.pem"), f"valid for {other.pfx}")
    trial.install(order.setup, status=_FOREIGN)  # the user's file
    shutil.rmtree(trial.folder)
    trial.install(order.setup)
    for name in ("upreel.exe", "upreel-cli.exe", "uninstall.exe"):
        expect(_verifies(trial.folder / name, trusted), f"the installed {name} is not signed")
    trial.uninstall(trial.folder)
    data = bytearray(order.setup.read_bytes())
    data[len(data) // 2] ^= 1
    order.setup.write_bytes(data)
    try:
        sign.verify(order.setup, trusted)
    except sign.SignError as err:
        expect("MISMATCH" in str(err), f"another error than for the changed byte: {err}")
    else:
        raise TrialFailed("a changed byte is not detected")


def _verifies(file: Path, trusted: Path) -> bool:
    try:
        sign.verify(file, trusted)
    except sign.SignError:
        return False
    return True


def _fill(trial: SetupTrial) -> None:
    """Write typical user data, and settings of other programs."""
    for name in ("models/a.safetensors", "runtimes/cu999-1/torch/x.dll", "jobs/1/job.json",
                 "settings.toml", "window.ini", "results/film.mp4"):  # fmt: skip
        file = trial.data / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    deep = trial.data.joinpath("jobs", *("a long name of a job " * 5,) * 4)
    deep.mkdir(parents=True)
    (deep / "segment.mkv").write_text("a path of more than 260 characters")
    trial.write_value(r"Software\Classes\.mp4\OpenWithProgids", "Player.Film", "")
    trial.write_value(r"Software\Classes\.mkv", "PerceivedType", "video")
    trial.write_value(GPU_KEY, r"C:\other.exe", "GpuPreference=1;")


def _expect_path(trial: SetupTrial, folder: Path | None = None) -> None:
    """The PATH of `_LONG_PATH`, with the commands of an installation in `folder` at its end."""
    added = f";{trial.wine.path(folder / 'bin')}" if folder else ""
    found = _letters(trial.user_path())
    expect(found == _LONG_PATH + added, f"the PATH ends with {found[-80:]!r}, not {added!r}")


def _expect_version(trial: SetupTrial, version: str) -> None:
    done = trial.run_cli("--version")
    expect(version in done.stdout, f"version: {(done.stdout + done.stderr)[-500:]!r}")


def _expect_files(trial: SetupTrial, payload: Path, own_files: dict[str, bytes]) -> None:
    expected = contents(payload) | own_files
    found = contents(trial.folder)
    for name in ("uninstall.exe", "uninstall.files"):
        expect(found.pop(name, None) is not None, f"{name} is missing")
    for name in {f"{Path(name).parent.as_posix()}" for name in own_files} - {"."}:
        expected.setdefault(name, None)
    differing = sorted(
        name
        for name in found.keys() | expected
        if (name in found, found.get(name)) != (name in expected, expected.get(name))
    )
    expect(not differing, f"different: {differing[:8]}")


def _expect_snapshot(trial: SetupTrial, before: Snapshot) -> None:
    after = trial.snapshot()
    left, lost = after.added(before), before.added(after)
    expect(not left, f"left: {left[:8]}")
    expect(not lost, f"removed, though not Upreel's: {lost[:8]}")


def _letters(text: str) -> str:
    r"""Text of a registry file: Wine writes letters beyond Latin-1 as \x6587."""
    parts = text.split("\\x")
    return parts[0] + "".join(chr(int(part[:4], 16)) + part[4:] for part in parts[1:])
