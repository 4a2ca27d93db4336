"""A lack of memory is never taken for damage, and nothing is concluded from it."""

import errno
import json
import logging
import mmap
import subprocess
import sys
from pathlib import Path

import av
import pytest

from engine import api
from engine.cli.main import main
from engine.core.errors import OutOfMemory, UnreadableMedia, is_memory_refusal, memory_ran_out
from engine.core.file_access import reported
from engine.files.formats.file_map import FileMap
from engine.ops.linear import matmul
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe
from engine.video.write import codecs
from engine.video.write.codecs import encoder_works
from tests.helpers.clips import Clip, make_clip

REFUSED = OSError(errno.ENOMEM, "Cannot allocate memory")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system gives no memory, and a library says "invalid data"."""

    def refused(*_: object, **__: object) -> None:
        raise REFUSED

    monkeypatch.setattr(mmap, "mmap", refused)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "clip.mp4"
    make_clip(path, Clip(frames=6, size=(64, 48)))
    return path


def damage(path: Path) -> None:
    """Spoil the pictures, not the index after them."""
    content = bytearray(path.read_bytes())
    begin = content.index(b"mdat") + 4
    end = content.index(b"moov") - 4
    content[begin:end] = bytes(end - begin)
    path.write_bytes(content)


def test_it_is_recognised() -> None:
    for error in (
        MemoryError(),
        REFUSED,
        RuntimeError("CUDA out of memory"),
        av.MemoryError(12, ""),
    ):
        assert is_memory_refusal(error), error
    for error in (ValueError("out of memory"), OSError(errno.EIO, "x"), RuntimeError("x")):
        assert not is_memory_refusal(error)
        assert not memory_ran_out(error)


def test_a_source_is_not_called_damaged(clip: Path, short: None) -> None:
    media = probe(clip)
    damage(clip)
    with pytest.raises(OutOfMemory):
        probe(clip)
    with FrameReader(media) as reader, pytest.raises(OutOfMemory):
        list(reader)
    clip.write_bytes(b"no film at all")
    with pytest.raises(OutOfMemory):
        probe(clip)


def test_with_memory_it_is(clip: Path) -> None:
    media = probe(clip)
    damage(clip)
    with FrameReader(media) as reader:
        assert list(reader) == []
        assert reader.problems
    clip.write_bytes(b"no film at all")
    with pytest.raises(UnreadableMedia):
        probe(clip)


_LIMITED = """
import json, resource, sys
from pathlib import Path
from engine.core.errors import EngineError
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe

path, found = Path(sys.argv[1]), []
media = probe(path)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
for room in (0, 1, 2, 4, 8, 256):
    resource.setrlimit(resource.RLIMIT_AS, (used + room * 2**20, resource.RLIM_INFINITY))
    for work in (lambda: probe(path).video.frame_count, lambda: len(list(FrameReader(media)))):
        try:
            found.append(work())
        except EngineError as err:
            found.append(err.code)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(json.dumps(found))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the addresses of a process")
def test_under_a_limit_of_the_system_a_film_is_whole_or_memory_ran_out(clip: Path) -> None:
    command = [sys.executable, "-c", _LIMITED, str(clip)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    found = json.loads(done.stdout)
    assert set(found) <= {6, "out-of-memory"}, found
    assert "out-of-memory" in found
    assert found[-2:] == [6, 6], "nothing of it is kept"


def test_an_encoder_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise av.MemoryError(errno.ENOMEM, "x")

    codecs._works.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(av.CodecContext, "create", refused, raising=False)
        for _ in range(2):
            with pytest.raises(OutOfMemory):
                encoder_works("libx264")
        assert not encoder_works("h264_nvenc"), "a GPU has no room for one more"
    assert encoder_works("libx264"), "nothing of it is kept"


def test_an_operator_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    matmul._fault.cache_clear()
    before = matmul._fault()
    matmul._fault.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(matmul, "onednn_product", refused)
        with pytest.raises(RuntimeError):
            matmul._fault()
    assert matmul._fault() == before


def test_a_model_file_is_not_called_unreadable(tmp_path: Path, short: None) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(bytes(99))
    file = FileMap(path)
    with pytest.raises(OutOfMemory), file.window(0, 9):
        pass
    file.close()


def test_it_is_no_internal_error(
    clip: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in ("a", "engine.cli.main"):
        caplog.set_level(logging.CRITICAL, logger=name)
    logger = logging.getLogger("a")
    assert reported(MemoryError(), "work", logger).code == "out-of-memory"
    assert reported(REFUSED, "work", logger).code == "out-of-memory"
    assert reported(KeyError(), "work", logger).code == "internal-error"

    def refused(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(api, "probe", refused)
    assert main(["probe", str(clip)]) == 1
    assert "error[out-of-memory]" in capsys.readouterr().err
