"""What can go wrong, met as an unprivileged user: a code, a hint, the source untouched."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.clips import cut_short, drop_to_nobody, make_clip
from tests.helpers.disks import small_disk
from tests.helpers.program import Ended, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="users and tmpfs of Linux"),
]
UNPRIVILEGED = 65534
_DROP_BOUND = 24  # PR_CAPBSET_DROP
_POWERS = range(10)  # over files and users: CAP_CHOWN, CAP_DAC_OVERRIDE ... CAP_SETPCAP is 8


def drop_powers() -> None:
    """Let this (child) process of root obey permissions after its next exec, as others do."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for power in _POWERS:
        if libc.prctl(_DROP_BOUND, power, 0, 0, 0) and power != 8:
            raise OSError(ctypes.get_errno(), "powers cannot be dropped")


@cache
def nobody_can_run_python() -> bool:
    """False where the interpreter lies in root's own home."""
    words = [sys.executable, "-c", "import numpy"]
    try:
        done = subprocess.run(words, preexec_fn=drop_to_nobody, capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


@dataclass(frozen=True, slots=True)
class Stranger:
    """A user without rights over others, with a folder of its own."""

    home: Path

    def own(self, path: Path) -> Path:
        """Give a file or folder to this user."""
        if os.geteuid() == 0 and nobody_can_run_python():
            os.chown(path, UNPRIVILEGED, UNPRIVILEGED)
        return path

    def run(self, *words: str | Path) -> Ended:
        """The program, run by this user."""
        env = {
            "HOME": str(self.home),
            "UPREEL_DATA": str(self.home / "data"),
            "UPREEL_CACHE": str(self.home / "cache"),
            "TMPDIR": str(self.home),
        }
        lower = drop_to_nobody if nobody_can_run_python() else drop_powers
        return run(*words, env=env, before=lower)


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    home = Path(tempfile.mkdtemp(prefix="upreel-stranger-"))
    home.chmod(0o755)
    user = Stranger(home)
    user.own(home)
    yield user
    for folder in (home, *(path for path in home.iterdir() if path.is_dir())):
        folder.chmod(0o755)
    shutil.rmtree(home)


def clip(user: Stranger, name: str = "source.mp4", **how: object) -> Path:
    return user.own(make_clip(user.home / name, **{"frames": 10, "audio_tracks": 1} | how))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def refused(user: Stranger, source: Path, output: Path, *words: str) -> str:
    """Run it, insist on manners, return the error's code."""
    before = digest(source) if source.is_file() else ""
    there = digest(output) if output.is_file() else ""
    ended = user.run("upscale", source, "-o", output, *words)
    assert ended.status == 1, f"status {ended.status}: {ended.err}"
    assert ended.code not in ("", "internal-error"), ended.err
    assert ended.has_hint, ended.err
    assert "Traceback" not in ended.err + ended.out
    assert not before or digest(source) == before
    assert (digest(output) if output.is_file() else "") == there
    assert not list(output.parent.glob("*.part*"))
    return ended.code


def test_what_is_no_whole_film_is_refused(stranger: Stranger) -> None:
    home = stranger.home
    (home / "notes.mp4").write_text("These are notes, not a film.\n" * 400)
    (home / "empty.mp4").touch()
    film = clip(stranger).read_bytes()
    (home / "strange.mp4").write_bytes(film.replace(b"avc1", b"zzz9").replace(b"avcC", b"zzzC"))
    cut_short(clip(stranger, "whole.mp4", frames=60), home / "cut.mp4", 0.5)
    _sound_only(home / "song.m4a")
    clip(stranger, "secret.mp4").chmod(0o000)
    for name, code in {
        "notes.mp4": "unreadable-media",
        "empty.mp4": "unreadable-media",
        "cut.mp4": "truncated-media",  # without its index at the end nothing can be read
        "song.m4a": "unsupported-media",
        "strange.mp4": "unsupported-media",
        "nothing.mp4": "source-missing",
        "secret.mp4": "source-unreadable",
    }.items():
        assert refused(stranger, home / name, home / "out.mp4") == code, name


def _sound_only(path: Path) -> None:
    import av
    import numpy as np

    with av.open(str(path), "w", format="ipod") as output:
        stream = output.add_stream("aac", rate=48000, layout="mono")
        for number in range(20):
            silence = np.zeros((1, 1024), np.int16)
            frame = av.AudioFrame.from_ndarray(silence, format="s16", layout="mono")
            frame.sample_rate, frame.pts = 48000, number * 1024
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


def test_a_truncated_mkv_is_upscaled_as_far_as_it_goes_or_refused(stranger: Stranger) -> None:
    source = cut_short(clip(stranger, "whole.mkv", frames=60), stranger.home / "cut.mkv", 0.5)
    before, output = digest(source), stranger.home / "out.mkv"
    ended = stranger.run("upscale", source, "-o", output)
    assert "Traceback" not in ended.err
    assert digest(source) == before
    if ended.status:
        assert ended.code == "truncated-media"
        assert not output.exists()
    else:  # what there is was upscaled, and that something is missing is reported
        words = ("incomplete", "truncated", "cut")
        assert any(word in ended.err for word in words), ended.err


def test_a_result_that_cannot_be_made_is_refused(stranger: Stranger) -> None:
    source, home = clip(stranger), stranger.home
    wide = clip(stranger, "wide.mkv", frames=1, size=(8192, 64), codec="ffv1", audio_tracks=0)
    (home / "locked").mkdir(mode=0o555)
    (home / "link.mp4").symlink_to(source)
    (home / "there.mp4").write_bytes(b"another work")
    cases: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("locked/out.mp4", "output-unwritable", ()),
        ("no/out.mp4", "output-unwritable", ()),
        ("source.mp4", "output-is-input", ("--overwrite",)),
        ("link.mp4", "output-is-input", ("--overwrite",)),
        ("there.mp4", "output-exists", ()),
        ("out.mp4", "settings-error", ("--set", "codec=quicktune")),
    )
    for name, code, words in cases:
        assert refused(stranger, source, home / name, *words) == code, name
    assert refused(stranger, wide, home / "out.mp4", "--scale", "4")


@pytest.mark.programs("mount", "umount")
def test_disk_full_at_the_result(stranger: Stranger) -> None:
    source = clip(stranger, frames=60)
    with small_disk(stranger.home / "disk", "64k") as disk:
        output = disk / "out.mp4"
        assert refused(stranger, source, output, "--set", "crf=1") == "disk-full"
        assert list(disk.iterdir()) == []
    words = ("--set", "crf=1", "--set", "overwrite=yes")
    ended = stranger.run("upscale", source, "-o", stranger.home / "out.mp4", *words)
    assert ended.status == 0, ended.err


@pytest.mark.programs("mount", "umount")
def test_disk_full_at_the_jobs(stranger: Stranger) -> None:
    source = clip(stranger, frames=60)
    with small_disk(stranger.home / "data", "64k"):
        output = stranger.home / "out.mp4"
        assert refused(stranger, source, output, "--set", "crf=1") == "disk-full"


def test_pictures_of_impossible_size(stranger: Stranger) -> None:
    source = stranger.home / "picture.png"
    for size in ((0, 0), (0, 40), (60000, 60000), (70000, 2)):
        source.write_bytes(_png(*size))
        code = refused(stranger, source, stranger.home / "out.png")
        assert code in ("unsupported-media", "unreadable-media", "truncated-media"), size


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return len(data).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes((8, 2, 0, 0, 0))
    pixels = zlib.compress(bytes(min(1 << 16, (width * 3 + 1) * max(1, height))))
    chunks = chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def test_absurd_sizes_are_wrong_usage_or_an_error(stranger: Stranger) -> None:
    source, output = clip(stranger), stranger.home / "out.mp4"
    sizes = ("99999x99999", "0x0", "0x100", "-5x7", "axb")
    for word in (*(f"--size={size}" for size in sizes), "--height=99999", "--scale=99"):
        ended = stranger.run("upscale", source, "-o", output, word)
        assert ended.status in (1, 2), f"{word}: {ended.err}"
        assert "Traceback" not in ended.err
        assert not output.exists()


def test_one_frame_works(stranger: Stranger) -> None:
    for suffix in (".mp4", ".mkv"):
        source = clip(stranger, f"one{suffix}", frames=1)
        before, output = digest(source), stranger.home / f"out{suffix}"
        ended = stranger.run("upscale", source, "-o", output)
        assert ended.status == 0, ended.err
        assert stranger.run("verify", source, output).status == 0
        assert digest(source) == before
