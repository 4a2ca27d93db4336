import errno
import logging
import threading
from pathlib import Path

import pytest

from engine.core import errors, file_access, gpu_loss
from engine.core.file_access import RetryingFile, in_time, read_error, reported, write_error
from tests.helpers.disks import FailingReads, system_error

logger = logging.getLogger(__name__)

WRITING = {
    "ENOSPC": "disk-full",
    "EDQUOT": "disk-full",
    "EACCES": "output-unwritable",
    "EROFS": "output-unwritable",
    "EIO": "output-unwritable",
    "ESTALE": "output-unwritable",
    "EFBIG": "output-unwritable",
    "ENOENT": "output-unwritable",
    "ENAMETOOLONG": "output-name",
    "EISDIR": "output-exists",
    "ENOMEM": "out-of-memory",
    "EINVAL": "output-error",
}
READING = {
    "ENOENT": "source-missing",
    "EACCES": "source-unreadable",
    "EIO": "source-unreadable",
    "ENOMEM": "out-of-memory",
}


def test_every_error_of_the_system_has_its_code_sentence_and_hint(tmp_path):
    for table, translate in ((WRITING, write_error), (READING, read_error)):
        for name, code in table.items():
            found = translate(system_error(getattr(errno, name)), tmp_path / "film.mkv")
            assert found.code == code, name
            assert found.message, name
            assert found.hint, name
    full = OSError(errno.EINVAL, "full")
    full.winerror = 39  # ERROR_HANDLE_DISK_FULL, which Python takes for a wrong argument
    assert write_error(full, tmp_path).code == "disk-full"


@pytest.mark.parametrize("name", [*WRITING, "EMFILE", "EBUSY"])
def test_an_error_that_nobody_translated_is_no_internal_error(
    name: str, expected_log_errors: list[str]
) -> None:
    expected_log_errors.append("job a")
    number = getattr(errno, name)
    for error in (system_error(number), OSError(number, "no", "/films/a.mkv")):
        found = reported(error, "job a", logger)
        assert not isinstance(found, errors.InternalError)
        assert found.message
        assert found.hint


def test_a_passing_read_error_is_repeated_at_the_same_place(tmp_path, monkeypatch):
    path = tmp_path / "film"
    path.write_bytes(bytes(range(200)))
    rule = FailingReads(path, first=100, times=2).install(monkeypatch)
    with RetryingFile(path) as file:
        assert file.read(80) + file.read(80) + file.read(80) == bytes(range(200))
        assert (file.failure, rule.seen) == (None, 2)


def test_what_stays_unreadable_looks_like_the_end_and_is_a_failure(tmp_path, monkeypatch):
    path = tmp_path / "film"
    path.write_bytes(bytes(200))
    rule = FailingReads(path, first=100).install(monkeypatch)
    with RetryingFile(path) as file:
        assert len(file.read(80)) == 80
        assert file.read(80) == b""
        assert file.failure.errno == errno.EIO
        assert rule.seen == 1 + len(file_access.PAUSES_S)
        assert file.read(80) == b""
        assert rule.seen == 2 + len(file_access.PAUSES_S), "a drive that has gone is tried once"
        file.seek(0)
        assert len(file.read(80)) == 80, "what is readable is read all the same"


def test_a_read_that_does_not_return_is_a_failure_and_is_left_behind(tmp_path, monkeypatch):
    path = tmp_path / "film"
    path.write_bytes(bytes(range(200)))
    rule = FailingReads(path, first=100, times=1, answers=threading.Event()).install(monkeypatch)
    monkeypatch.setattr(file_access, "PATIENCE_S", 0.2)
    with RetryingFile(path) as file:
        assert len(file.read(80)) == 80
        assert (file.read(80), file.read(80)) == (b"", b"")
        assert rule.seen == 1, "it is not repeated"
        assert read_error(file.failure, path).message == (
            "film could not be read: the drive or network share has not answered for 0 s."
        )
    rule.answers.set()
    with RetryingFile(path) as file:
        assert file.read(200) == bytes(range(200))


def test_calls_share_threads_and_keep_their_results_and_errors(tmp_path):
    before = threading.active_count()
    assert [in_time(lambda n=n: n + 1) for n in range(50)] == list(range(1, 51))
    with pytest.raises(FileNotFoundError):
        in_time((tmp_path / "none").stat)
    assert threading.active_count() <= before + 1


def test_a_file_that_becomes_shorter_or_another_one_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(file_access, "PAUSES_S", (0.0,))
    path = tmp_path / "film"
    path.write_bytes(bytes(200))
    with RetryingFile(path) as file:
        file.read(100)
        with path.open("r+b") as other:
            other.truncate(100)
        assert file.read(100) == b""
        assert file.failure is not None
    path.write_bytes(bytes(200))
    with RetryingFile(path) as file:
        file.close()
        Path(tmp_path / "other").write_bytes(bytes(300))
        (tmp_path / "other").replace(path)
        assert file.read(100) == b""
        assert file.failure.errno == errno.ESTALE


@pytest.mark.parametrize(
    "answer",
    [
        "CUDA error: unspecified launch failure\nmore",
        "cuLaunchKernel: an illegal memory access was encountered",
        "CUDA error: no CUDA-capable device is detected",
        "CUDA error: CUDA_ERROR_NO_DEVICE",
        "CUDA error: driver shutting down",
        "CUDA error: unknown error",
        "device lost",
    ],
)
def test_the_loss_of_a_gpu_is_one_error_that_is_remembered(answer: str, monkeypatch) -> None:
    monkeypatch.setattr(gpu_loss, "_lost", threading.Event())
    gpu_loss.check()
    found = reported(RuntimeError(answer), "benchmark", logger)
    assert (found.code, found.params["reason"]) == ("gpu-lost", answer.partition("\n")[0])
    assert "Restart Upreel" in found.hint
    with pytest.raises(errors.GpuLost):
        gpu_loss.check()


def test_other_errors_are_no_loss_of_a_gpu(expected_log_errors: list[str]) -> None:
    expected_log_errors.append("benchmark")
    for error in (RuntimeError("unknown error"), ValueError("device lost")):
        assert isinstance(reported(error, "benchmark", logger), errors.InternalError)
    assert not gpu_loss.is_remembered()
