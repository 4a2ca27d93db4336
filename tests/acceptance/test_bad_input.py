"""What can go wrong, met as an unprivileged user: a code, a hint, the source untouched."""

from __future__ import annotations

import contextlib
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
from tests.helpers.program import Ended, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="users and tmpfs of Linux"),
]
NOBODY = 65534
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
            os.chown(path, NOBODY, NOBODY)
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
    there = output.exists() and digest(output) if not output.is_dir() else ""
    ended = user.run("upscale", source, "-o", output, *words)
    error = ended.err
    assert ended.status == 1, f"status {ended.status}: {error}"
    assert ended.code, error
    assert ended.has_hint, error
    assert "Traceback" not in error + ended.out
    assert ended.code != "internal-error", error
    assert not before or digest(source) == before
    assert (output.exists() and digest(output) if not output.is_dir() else "") == there
    left = (
        [p.name for p in output.parent.iterdir() if ".part" in p.name]
        if output.parent.is_dir()
        else []
    )
    assert not left
    print(f"\n{ended.code}: {error.strip().splitlines()[-2:]}")
    return ended.code


def test_not_a_video(stranger: Stranger) -> None:
    source = stranger.home / "notes.mp4"
    source.write_text("These are notes, not a film.\n" * 400)
    assert refused(stranger, source, stranger.home / "out.mp4") == "unreadable-media"


def test_zero_bytes(stranger: Stranger) -> None:
    source = stranger.home / "empty.mp4"
    source.touch()
    assert refused(stranger, source, stranger.home / "out.mp4") == "unreadable-media"


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_truncated(stranger: Stranger, suffix: str) -> None:
    whole = clip(stranger, f"whole{suffix}", frames=60)
    source = cut_short(whole, stranger.home / f"cut{suffix}", 0.5)
    output = stranger.home / f"out{suffix}"
    if suffix == ".mp4":  # without its index at the end nothing can be read
        assert refused(stranger, source, output) == "truncated-media"
        return
    before = digest(source)
    ended = stranger.run("upscale", source, "-o", output)
    assert "Traceback" not in ended.err
    assert digest(source) == before
    if ended.status:
        assert ended.code == "truncated-media"
        assert not output.exists()
    else:  # what there is was upscaled, and that something is missing is reported
        assert "incomplete" in ended.err or "truncated" in ended.err or "cut" in ended.err, (
            ended.err
        )


def test_audio_only(stranger: Stranger) -> None:
    source = _sound_only(stranger.home / "song.m4a")
    assert refused(stranger, source, stranger.home / "out.mp4") == "unsupported-media"


def _sound_only(path: Path) -> Path:
    import av
    import numpy as np

    with av.open(str(path), "w", format="ipod") as output:
        stream = output.add_stream("aac", rate=48000, layout="mono")
        for number in range(20):
            frame = av.AudioFrame.from_ndarray(
                np.zeros((1, 1024), np.int16), format="s16", layout="mono"
            )
            frame.sample_rate, frame.pts = 48000, number * 1024
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def test_missing(stranger: Stranger) -> None:
    source = stranger.home / "nothing.mp4"
    assert refused(stranger, source, stranger.home / "out.mp4") == "source-missing"


def test_unreadable(stranger: Stranger) -> None:
    source = clip(stranger)
    source.chmod(0o000)
    assert refused(stranger, source, stranger.home / "out.mp4") == "source-unreadable"


def test_output_folder_unwritable(stranger: Stranger) -> None:
    source = clip(stranger)
    folder = stranger.home / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    assert refused(stranger, source, folder / "out.mp4") == "output-unwritable"


def test_output_folder_missing(stranger: Stranger) -> None:
    source = clip(stranger)
    assert refused(stranger, source, stranger.home / "no" / "out.mp4") == "output-unwritable"


def test_output_equals_input(stranger: Stranger) -> None:
    source = clip(stranger)
    assert refused(stranger, source, source, "--overwrite") == "output-is-input"
    link = stranger.home / "link.mp4"
    link.symlink_to(source)
    assert refused(stranger, source, link, "--overwrite") == "output-is-input"


def test_output_exists(stranger: Stranger) -> None:
    source = clip(stranger)
    output = stranger.home / "out.mp4"
    output.write_bytes(b"another work")
    assert refused(stranger, source, output) == "output-exists"


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A tmpfs that anybody may write to."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=1777", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("a small tmpfs cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_disk_full_at_the_result(stranger: Stranger) -> None:
    source = clip(stranger, frames=60)
    with small_disk(stranger.home / "disk", "64k") as disk:
        output = disk / "out.mp4"
        assert refused(stranger, source, output, "--set", "crf=1") == "disk-full"
        assert list(disk.iterdir()) == []
    words = ("--set", "crf=1", "--set", "overwrite=yes")
    ended = stranger.run("upscale", source, "-o", stranger.home / "out.mp4", *words)
    assert ended.status == 0, ended.err


def test_disk_full_at_the_jobs(stranger: Stranger) -> None:
    source = clip(stranger, frames=60)
    with small_disk(stranger.home / "data", "64k"):
        output = stranger.home / "out.mp4"
        assert refused(stranger, source, output, "--set", "crf=1") == "disk-full"


def test_unknown_codec_of_the_source(stranger: Stranger) -> None:
    whole = clip(stranger)
    source = stranger.home / "strange.mp4"
    source.write_bytes(whole.read_bytes().replace(b"avc1", b"zzz9").replace(b"avcC", b"zzzC"))
    assert refused(stranger, source, stranger.home / "out.mp4") == "unsupported-media"


def test_unknown_codec_of_the_result(stranger: Stranger) -> None:
    source = clip(stranger)
    output = stranger.home / "out.mp4"
    assert refused(stranger, source, output, "--set", "codec=quicktune") == "settings-error"


@pytest.mark.parametrize(("width", "height"), [(0, 0), (0, 40), (60000, 60000), (70000, 2)])
def test_pictures_of_impossible_size(stranger: Stranger, width: int, height: int) -> None:
    source = stranger.home / "picture.png"
    source.write_bytes(_png(width, height))
    code = refused(stranger, source, stranger.home / "out.png")
    assert code in ("unsupported-media", "unreadable-media", "truncated-media")


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return len(data).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes((8, 2, 0, 0, 0))
    pixels = zlib.compress(bytes(min(1 << 16, (width * 3 + 1) * max(1, height))))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    "words", [("--size", "99999x99999"), ("--height", "99999"), ("--scale", "99")]
)
def test_absurd_results(stranger: Stranger, words: tuple[str, str]) -> None:
    source = clip(stranger)
    output = stranger.home / "out.mp4"
    ended = stranger.run("upscale", source, "-o", output, *words)
    assert ended.status in (1, 2), ended.err
    assert "Traceback" not in ended.err
    assert not output.exists()


def test_absurd_enlargement_of_a_large_source_is_refused_or_planned(stranger: Stranger) -> None:
    source = clip(stranger, "wide.mkv", frames=1, size=(8192, 64), codec="ffv1", audio_tracks=0)
    assert refused(stranger, source, stranger.home / "out.mp4", "--scale", "4")


@pytest.mark.parametrize("size", ["0x0", "0x100", "-5x7", "axb"])
def test_size_zero_is_wrong_usage_or_an_error(stranger: Stranger, size: str) -> None:
    source = clip(stranger)
    output = stranger.home / "out.mp4"
    ended = stranger.run("upscale", source, "-o", output, f"--size={size}")
    assert ended.status in (1, 2), ended.err
    assert "Traceback" not in ended.err
    assert not output.exists()


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_one_frame_works(stranger: Stranger, suffix: str) -> None:
    source = clip(stranger, f"one{suffix}", frames=1)
    before = digest(source)
    output = stranger.home / f"out{suffix}"
    ended = stranger.run("upscale", source, "-o", output)
    assert ended.status == 0, ended.err
    assert stranger.run("verify", source, output).status == 0
    assert digest(source) == before
