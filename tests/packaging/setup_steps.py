"""Steps of check_setup.py: what a setup shall do, one function each.

Each begins with what the one before has left.
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
from installer.build_setup import Order, make_setup
from tests.packaging import setup_trial
from tests.packaging.setup_trial import (
    GPU_KEY,
    Failed,
    Trial,
    contents,
)

_UPSCALE_LIMIT_S = 900
_RUNNING, _FOREIGN, _NO_SPACE, _NO_PATH, _HELD, _DAMAGED = 10, 11, 12, 14, 17, 2


def steps(clip: Path | None) -> list[tuple[str, Callable[[Trial], None]]]:
    """All steps in their order; each begins with what the one before has left."""
    found: list[tuple[str, Callable[[Trial], None]]] = [
        ("a damaged or cut setup refuses", refuses_damage),
        ("folders that will not do are refused", refuses_folders),
        ("too little space is refused", refuses_small_drive),
        ("installs into a path with spaces and Chinese letters", installs),
        ("Windows' lists know it", is_listed),
        ("while it runs nothing is replaced", waits_for_program),
        ("asks a window to close", closes_window),
        ("a file that is held: all is as before", rolls_back),
        ("upgrades, leaves no stale file and keeps the user's", upgrades),
        ("a cut upgrade is mended by the next", mends),
        ("runs after the upgrade", runs_new),
        ("moves to another folder", moves),
        ("uninstalls: nothing of ours stays, models and settings do", uninstalls),
        ("uninstalls with /PURGE: they go, results stay", purges),
        ("signs; a changed byte is found", signs),
    ]
    if clip:
        found.insert(-4, ("the installed program upscales a film", lambda t: upscales(t, clip)))
    return found


def refuses_damage(trial: Trial) -> None:
    """Every byte counts, at both ends and in the middle."""
    good = trial.setups.new.read_bytes()
    for place in (0.2, 0.5, 0.9, 0.999):
        at = int(len(good) * place)
        bad = trial.setups.new.with_name("damaged.exe")
        bad.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        trial.install(bad, status=_DAMAGED)
    bad.write_bytes(good[:-1000])
    trial.install(bad, status=_DAMAGED)
    bad.unlink()
    _is_so(not trial.folder.exists(), "a damaged setup installed something")


def refuses_folders(trial: Trial) -> None:
    """Folders with other files, and paths that the program could not live in."""
    folder = trial.wine.drive / "films"
    folder.mkdir()
    (folder / "film.mkv").write_bytes(b"film")
    before = contents(folder)
    new = trial.setups.new
    trial.setup(new, r"/DIR=C:\films", status=_FOREIGN)
    _is_so(contents(folder) == before, "a folder of the user was changed")
    shutil.rmtree(folder)
    data = trial.wine.path(trial.data)
    for path in ("C:\\", r"\\server\share\Upreel", data, data + r"\program", "C:\\" + "x" * 200):
        trial.setup(new, f"/DIR={path}", status=_NO_PATH)
    _is_so(not trial.data.exists(), "a refused folder was made")


def refuses_small_drive(trial: Trial) -> None:
    """A drive of one megabyte; only where this user may make one."""
    place = trial.wine.prefix / "small"
    place.mkdir(exist_ok=True)
    small = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(small, check=False, capture_output=True).returncode:
        print("         not checked: no small drive can be made here")
        return
    try:
        folder = trial.wine.path(place / "Upreel")
        trial.setup(trial.setups.new, f"/DIR={folder}", status=_NO_SPACE)
        _is_so(not any(place.iterdir()), "something was left on the small drive")
    finally:
        subprocess.run(["umount", str(place)], check=True)


def installs(trial: Trial) -> None:
    """The older version, and the user's files beside it."""
    trial.install(trial.setups.old, "/DESKTOP=1")
    _same_files(trial, trial.setups.old_payload, {})
    _says(trial, "0.0.1")
    out = trial.wine.drive / "written.txt"
    trial.wine.run(trial.folder / "upreel.exe", "--write", r"C:\written.txt")
    _is_so(out.is_file() and out.read_text() == "0.0.1", "the installed upreel.exe did not run")
    out.unlink()


def is_listed(trial: Trial) -> None:
    """The list of programs, the Start menu, the desktop, Open with."""
    folder = trial.wine.path(trial.folder)
    wanted = {
        "DisplayName": "Upreel",
        "DisplayVersion": "0.0.1",
        "InstallLocation": folder,
        "UninstallString": f'"{folder}\\uninstall.exe"',
        "QuietUninstallString": f'"{folder}\\uninstall.exe" /S',
    }
    registry = trial.wine.snapshot(("user.reg",)).registry
    key = rf"user|{setup_trial.UNINSTALL_KEY}|"
    for name, text in wanted.items():
        found = registry.get(key + name, "")[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        _is_so(_letters(found) == _letters(text), f"{name} is {found!r}, not {text!r}")
    size = int(registry[key + "EstimatedSize"].removeprefix("dword:"), 16) * 1024
    real = sum(p.stat().st_size for p in trial.setups.old_payload.rglob("*") if p.is_file())
    _is_so(abs(size - real) < 2048, f"the size is {size}, not {real}")
    for ending in (*VIDEO_ENDINGS, ".latent"):
        kind = "Latent" if ending == ".latent" else "Film"
        name = rf"user|Software\Classes\{ending}\OpenWithProgids|Upreel.{kind}"
        _is_so(name in registry, f"Open with does not know {ending}")
        _is_so(rf"user|Software\Classes\{ending}|@" not in registry, f"{ending} was taken over")
    for place in ("Desktop", "AppData/Roaming/Microsoft/Windows/Start Menu/Programs"):
        _is_so((trial.home / place / "Upreel.lnk").is_file(), f"{place} has no Upreel")


def waits_for_program(trial: Trial) -> None:
    """A program that stays is a status of its own; one that ends in time is waited for."""
    before = contents(trial.folder)
    with trial.running("--sleep", "300"):
        trial.install(trial.setups.new, "/WAIT=1", status=_RUNNING)
        _is_so(contents(trial.folder) == before, "files of a running program were changed")
        trial.setup(trial.folder / "uninstall.exe", "/WAIT=1", status=0)
        time.sleep(4)  # the uninstaller works from a copy, whose status nobody hears
        _is_so(contents(trial.folder) == before, "a running program was uninstalled")
    with trial.running("--sleep", "6"):
        trial.install(trial.setups.old, "/WAIT=60")


def closes_window(trial: Trial) -> None:
    """As an update does; what the program says to it is the program's business."""
    if not trial.display:
        print("         not checked: there is no Xvfb")
        return
    with trial.running("--window") as child:
        trial.install(trial.setups.old, "/WAIT=1", status=_RUNNING)
        trial.install(trial.setups.old, "/CLOSE", "/WAIT=30")
        _is_so(child.wait(20) == 0, "the window did not end by itself")


def rolls_back(trial: Trial) -> None:
    """The older version goes on working when one of its files cannot be moved."""
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
        _is_so(child.poll() is None, "nobody holds the file")
        trial.install(trial.setups.new, status=_HELD)
    finally:
        child.kill()
        child.wait()
        holder.unlink()
    after = contents(trial.folder)
    _is_so(after == before, f"left half: {sorted(set(after.items()) ^ set(before.items()))[:5]}")
    _says(trial, "0.0.1")


def upgrades(trial: Trial) -> None:
    """Over the older version, with files of the user, one of them where a new file goes."""
    inner = trial.folder / "_internal"
    new_name = next(
        path.relative_to(trial.setups.payload)
        for path in sorted(trial.setups.payload.rglob("*"))
        if path.is_file() and not (trial.setups.old_payload / path.name).exists()
        and not (trial.folder / path.relative_to(trial.setups.payload)).exists()
    )  # fmt: skip
    own = {"my notes.txt": b"notes", "_internal/only in 0.0.1/mine.txt": b"mine"}
    for name, data in own.items():
        (trial.folder / name).write_bytes(data)
    in_the_way = trial.folder / new_name
    in_the_way.parent.mkdir(parents=True, exist_ok=True)
    in_the_way.write_bytes(b"in the way")
    (trial.home / "Desktop" / "Upreel.lnk").unlink()  # the user does not want it
    trial.setup(trial.setups.new)  # finds by itself where the older one is
    kept = {f"{new_name.as_posix()}.kept": b"in the way"}
    _same_files(trial, trial.setups.payload, own | kept)
    _is_so(not (inner / "library-0.0.1.dll").exists(), "a stale file is there")
    _is_so(trial.entry("DisplayVersion") == trial.setups.version, "the list has the old version")
    _is_so(not (trial.home / "Desktop" / "Upreel.lnk").exists(), "the icon came back")
    for name in (*own, *kept):
        (trial.folder / name).unlink()
    (inner / "only in 0.0.1").rmdir()


def mends(trial: Trial) -> None:
    """Cut in the middle: the new files partly in, the old ones partly away."""
    old, new = trial.folder / "~upreel-old", trial.folder / "~upreel-new"
    for place in (old, new):
        (place / "_internal").mkdir(parents=True)
    moved = trial.folder / "upreel.exe"
    moved.rename(old / moved.name)
    (new / "_internal" / "half.dll").write_bytes(b"half")
    trial.setup(trial.setups.new)
    _same_files(trial, trial.setups.payload, {})


def runs_new(trial: Trial) -> None:
    """The command line answers."""
    _says(trial, trial.setups.version)


def upscales(trial: Trial, clip: Path) -> None:
    """With Lite on the processor, out of the folder with the Chinese letters."""
    film, result = trial.wine.drive / "片段 one.mp4", trial.wine.drive / "片段 two.mp4"
    shutil.copyfile(clip, film)
    words = ["upscale", trial.wine.path(film), "-o", trial.wine.path(result), "--model", "lite"]
    done = trial.ask(*words, "--scale", "2", timeout=_UPSCALE_LIMIT_S)
    said = (done.stdout + done.stderr)[-1500:]
    _is_so(done.returncode == 0 and result.is_file(), f"status {done.returncode}: {said}")
    print(f"         {result.stat().st_size / 1e6:.2f} MB; {' '.join(said.split())[-200:]}")
    film.unlink()
    result.unlink()
    trial.wine.settle()
    shutil.rmtree(trial.data, ignore_errors=True)  # jobs and logs of this run


def moves(trial: Trial) -> None:
    """To the usual folder; the one before holds nothing of ours afterwards."""
    usual = trial.local / "Programs" / "Upreel"
    (trial.folder / "my notes.txt").write_bytes(b"notes")
    trial.setup(trial.setups.new, f"/DIR={trial.wine.path(usual)}\\")
    _is_so(list(contents(trial.folder)) == ["my notes.txt"], "the folder before is not clean")
    _is_so((usual / "upreel.exe").is_file(), "it is not in the new folder")
    shutil.rmtree(trial.folder)
    trial.install(trial.setups.new)
    _is_so(not usual.exists(), "the usual folder is still there")


def uninstalls(trial: Trial) -> None:
    """Snapshots of files and registry before and after are the same."""
    trial.uninstall(trial.folder)
    for place in (trial.folder, trial.local / "Programs"):
        if place.exists():
            place.rmdir()  # raises when something is in it
    _fill(trial)
    before = trial.snapshot()
    trial.install(trial.setups.old, "/DESKTOP=1")
    trial.setup(trial.setups.new)
    program = trial.wine.path(trial.folder / "upreel.exe")
    trial.write_value(GPU_KEY, program, "GpuPreference=2;")
    (trial.data / "Cache").mkdir()
    (trial.data / "Cache" / "rates.json").write_text("{}")
    trial.uninstall(trial.folder)
    _same_snapshot(trial, before)


def purges(trial: Trial) -> None:
    """All of the data folder but results; a file of the user beside the program stays."""
    trial.install(trial.setups.new)
    (trial.folder / "my notes.txt").write_bytes(b"notes")
    trial.uninstall(trial.folder, "/PURGE")
    _is_so(list(contents(trial.folder)) == ["my notes.txt"], "the user's file went, or ours stayed")
    names = sorted(path.name for path in trial.data.iterdir())
    _is_so(names == ["results"], f"the data folder holds {names}")
    _is_so((trial.data / "results" / "film.mp4").is_file(), "a result was removed")


def signs(trial: Trial) -> None:
    """With a certificate of this minute: programs, uninstaller and setup, which still installs."""
    folder = trial.setups.new.parent / "signed"
    certificate, other = sign.throw_away(folder / "a"), sign.throw_away(folder / "b")
    payload, trusted = folder / "payload", folder / "a" / "try.pem"
    shutil.copytree(trial.setups.old_payload, payload)
    order = Order(payload=payload, out=folder, version="0.0.1", is_fast=True, is_signed=True)
    _is_so(not _verifies(trial.setups.old, trusted), "a setup without a signature passes")
    os.environ.update(
        UPREEL_SIGN_PFX=str(certificate.pfx),
        UPREEL_SIGN_PASSWORD=certificate.password,
        UPREEL_SIGN_TIMESTAMP="none",
    )
    for name in ("upreel.exe", "upreel-cli.exe"):
        sign.sign_files([payload / name])
    make_setup(order)
    _is_so(_verifies(order.setup, trusted), "the signature does not hold")
    _is_so(not _verifies(order.setup, folder / "b" / "try.pem"), f"{other.pfx} did not sign")
    trial.install(order.setup, status=_FOREIGN)  # the user's file is there
    shutil.rmtree(trial.folder)
    trial.install(order.setup)
    for name in ("upreel.exe", "upreel-cli.exe", "uninstall.exe"):
        _is_so(_verifies(trial.folder / name, trusted), f"the installed {name} is not signed")
    trial.uninstall(trial.folder)
    data = bytearray(order.setup.read_bytes())
    data[len(data) // 2] ^= 1
    order.setup.write_bytes(data)
    try:
        sign.verify(order.setup, trusted)
    except sign.SignError as err:
        _is_so("MISMATCH" in str(err), f"another fault than the changed byte: {err}")
    else:
        raise Failed("a changed byte is not found")


def _verifies(file: Path, trusted: Path) -> bool:
    try:
        sign.verify(file, trusted)
    except sign.SignError:
        return False
    return True


def _fill(trial: Trial) -> None:
    """What a user has after a while, and settings of other programs."""
    for name in ("models/a.safetensors", "runtimes/cu999-1/torch/x.dll", "jobs/1/job.json",
                 "settings.toml", "window.ini", "results/film.mp4"):  # fmt: skip
        file = trial.data / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    deep = trial.data.joinpath("jobs", *("a long name of a job " * 5,) * 4)
    deep.mkdir(parents=True)
    (deep / "segment.mkv").write_text("more than 260 characters from the drive on")
    trial.write_value(r"Software\Classes\.mp4\OpenWithProgids", "Player.Film", "")
    trial.write_value(r"Software\Classes\.mkv", "PerceivedType", "video")
    trial.write_value(GPU_KEY, r"C:\other.exe", "GpuPreference=1;")


def _says(trial: Trial, version: str) -> None:
    done = trial.ask("--version")
    _is_so(version in done.stdout, f"upreel-cli says {(done.stdout + done.stderr)[-500:]!r}")


def _same_files(trial: Trial, payload: Path, own: dict[str, bytes]) -> None:
    wanted = contents(payload) | own
    found = contents(trial.folder)
    for name in ("uninstall.exe", "uninstall.files"):
        _is_so(found.pop(name, None) is not None, f"{name} is not there")
    for name in {f"{Path(name).parent.as_posix()}" for name in own} - {"."}:
        wanted.setdefault(name, None)
    differing = sorted(name for name in found.keys() | wanted if found.get(name) != wanted.get(name)
                       or (name in found) != (name in wanted))  # fmt: skip
    _is_so(not differing, f"other than it should be: {differing[:8]}")


def _same_snapshot(trial: Trial, before: setup_trial.Snapshot) -> None:
    after = trial.snapshot()
    left, gone = after.added(before), before.added(after)
    _is_so(not left, f"left behind: {left[:8]}")
    _is_so(not gone, f"gone that was not ours: {gone[:8]}")


def _letters(text: str) -> str:
    r"""Wine writes letters beyond Latin-1 into its files as \x6587."""
    parts = text.split("\\x")
    return parts[0] + "".join(chr(int(part[:4], 16)) + part[4:] for part in parts[1:])


def _is_so(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Failed(otherwise)
