import io
import re
import zipfile
from pathlib import Path

import pytest

import engine
from engine.core.zip_reader import AmbiguousZip, UnreadableZip, ZipReader


def packed(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        for name, data in members:
            info = zipfile.ZipInfo("x")
            info.filename, info.compress_type = name, method
            archive.writestr(info, data)
    return content.getvalue()


def test_files_are_read_by_their_one_name_and_folders_are_left_out() -> None:
    reader = ZipReader(io.BytesIO(packed(("a/", b""), ("a/b", b"12"), ("empty", b""))))
    assert list(reader.members) == ["a/b", "empty"]
    assert (reader.read("a/b"), reader.read("empty")) == (b"12", b"")
    with pytest.raises(UnreadableZip, match="too long"):
        reader.read("a/b", most_bytes=1)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [("a", "a"), ("a\0../b",)])
def test_an_archive_that_states_two_things_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(AmbiguousZip):
        ZipReader(io.BytesIO(packed(*((name, b"1") for name in names))))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods_than_deflate_are_refused(method: int) -> None:
    reader = ZipReader(io.BytesIO(packed(("a", b"1"), method=method)))
    with pytest.raises(UnreadableZip, match="method"):
        reader.read("a")


def test_a_file_that_is_shorter_than_its_stated_size_is_damaged() -> None:
    content = bytearray(packed(("a", b"")))
    content[content.index(b"PK\1\2") + 24] = 7  # the size in the list of contents
    with pytest.raises(UnreadableZip, match="lacks 7 bytes"):
        ZipReader(io.BytesIO(content)).read("a")


def test_nothing_else_than_an_archive_is_one() -> None:
    for content in (b"", b"PK\5\6", b"x" * 100, packed(("a", b"1"))[:-9]):
        with pytest.raises(UnreadableZip):
            ZipReader(io.BytesIO(content))


def test_no_other_module_reads_archives() -> None:
    for path in Path(engine.__path__[0]).rglob("*.py"):
        opened = re.findall(r"ZipFile\((.*)\)", path.read_text("utf-8"))
        assert path.name == "zip_reader.py" or all('"w"' in one for one in opened), path
