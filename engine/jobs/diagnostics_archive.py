"""Archive for a report of a fault: logs, self-test, settings and plans, without names of files."""

from __future__ import annotations

import getpass
import io
import json
import platform
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine import __version__
from engine.core import atomic_file, paths
from engine.core.errors import EngineError
from engine.core.file_access import writing
from engine.core.serialization import to_plain
from engine.jobs.job_store import JobStore
from engine.protocol.report import DoctorLine
from engine.settings.store import settings_file

_MOST_BYTES = 2 * 10**6  # of a file; its end is kept
_MOST_JOBS = 20  # the newest

# A name may have spaces: it goes back to a colon, a quotation mark or the beginning of the line.
_SUFFIXES = (
    "mp4|m4v|mkv|mov|avi|webm|m?ts|m2ts|mpe?g|wmv|flv|nut|gif|a?png|tiff?|jpe?g|webp|bmp|exr|dpx"
    "|srt|ass|ttf|otf|safetensors|gguf|pth?|ckpt|latent|toml|whl|exe|dll|zip"
)
_NAME = re.compile(rf"[^\n:\"'<>|*?]+\.({_SUFFIXES})\b", re.IGNORECASE)
_PATH = re.compile(
    r"(?:\\\\\?\\(?:[A-Za-z]:)?|\b[A-Za-z]:[\\/]|\\\\|(?<![\w<>/.:])~?/(?=\w))(?:[^\n:\"'<>|*?]|'(?=\w))*"
)
_PRIVATE = {"title", "file_name", "pattern", "language"}  # keys of a job's file: texts of a film
_LEFT_OUT = {"metadata", "chapters"}


def write(path: Path, lines: Sequence[DoctorLine], *, with_names: bool = False) -> None:
    """Write the archive; an existing file is replaced.

    Args:
        path: A .zip.
        lines: What the self-test found.
        with_names: Keep names of files and folders, titles and metadata of films.

    Raises:
        OutputError: It cannot be written.
    """
    keep = Redaction(()) if with_names else Redaction(_known_names())
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in _files(lines, with_names=with_names):
            archive.writestr(name, text if with_names else keep.redacted(text))
    with writing(path):
        atomic_file.write_bytes(path, content.getvalue())


def _files(lines: Sequence[DoctorLine], *, with_names: bool) -> Iterator[tuple[str, str]]:
    """Name in the archive and text of each file, not redacted yet."""
    about = f"Upreel {__version__}\nPython {platform.python_version()}\n{platform.platform()}\n"
    yield "about.txt", about
    yield "doctor.txt", "".join(f"{one.state:<8} {one.name}: {one.message}\n" for one in lines)
    yield "settings.toml", _text(settings_file())
    for log in sorted(paths.logs_folder().glob("*.log*")):
        yield f"logs/{log.name}", _text(log)
    store = JobStore(paths.jobs_folder())
    for job_id in store.ids()[-_MOST_JOBS:]:
        yield f"jobs/{job_id}/job.json", _job(store, job_id, with_names=with_names)
        yield f"jobs/{job_id}/job.log", _text(store.folder(job_id) / "job.log")


def _text(path: Path) -> str:
    """The end of a file; why it cannot be read where it cannot."""
    try:
        return path.read_bytes()[-_MOST_BYTES:].decode("utf-8", "replace")
    except OSError as err:
        return f"not readable: {err.strerror or type(err).__name__}\n"


def _job(store: JobStore, job_id: str, *, with_names: bool) -> str:
    """Source, settings and plan; a damaged record has texts in unknown places, and stays out."""
    try:
        data = to_plain(store.load(job_id))
    except EngineError as err:
        return f"{err.code}: {err.message}\n"
    return json.dumps(data if with_names else _without_texts(data), indent=1, ensure_ascii=False)


def _without_texts(data: Any) -> Any:
    match data:
        case dict():
            return {
                key: f"<{len(value)}>"
                if key in _LEFT_OUT
                else ("<text>" if value else "")
                if key in _PRIVATE and isinstance(value, str)
                else _without_texts(value)
                for key, value in data.items()
            }
        case list() | tuple():
            return [_without_texts(value) for value in data]
    return data


def _known_names() -> Iterator[str]:
    """Names that may stand in a text by themselves: of this user, this machine, files of jobs."""
    with suppress(OSError, KeyError):
        yield getpass.getuser()
    yield Path.home().name
    yield platform.node()
    store = JobStore(paths.jobs_folder())
    for job_id in store.ids():
        with suppress(EngineError):
            stored = store.load(job_id)
            for path in (stored.media.path, stored.plan.output):
                yield from (path.name, path.stem, path.parent.name)


class Redaction:
    """Replaces names in texts; those of the program's own modules stay.

    Args:
        names: That are known to be private, whatever stands around them.
    """

    def __init__(self, names: Iterable[str]) -> None:
        found = sorted({name for name in names if len(name) > 2}, key=len, reverse=True)
        self._names = [
            re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE) for name in found
        ]
        program = Path(__file__).parents[2]
        places = [(program, "<program>"), *((Path(one), "<python>") for one in _python_folders())]
        self._places = sorted(places, key=lambda place: -len(str(place[0])))

    def redacted(self, text: str) -> str:
        """The text without names and paths; endings stay."""
        for folder, name in self._places:
            text = text.replace(str(folder), name)
        text = _PATH.sub(_shown, text)
        text = _NAME.sub(lambda found: f"<name>.{found[1]}", text)
        for pattern in self._names:
            text = pattern.sub("<name>", text)
        return text


def _python_folders() -> set[str]:
    return {sys.prefix, sys.base_prefix} - {"/usr", "/"}


def _shown(found: re.Match[str]) -> str:
    suffix = re.search(rf"\.({_SUFFIXES})$", found[0].strip(), re.IGNORECASE)
    return f"<path>{suffix[0] if suffix else ''}"
