"""Archive for a report of a fault: logs, self-test, settings and plans, without what is private."""

from __future__ import annotations

import getpass
import io
import json
import platform
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine import __version__
from engine.core import atomic_file, paths
from engine.core.errors import EngineError
from engine.core.file_access import writing
from engine.core.serialization import read_toml, to_plain
from engine.core.wings import wings
from engine.jobs.job_store import JobStore
from engine.jobs.redaction import Redaction
from engine.protocol.report import DoctorLine
from engine.settings.store import settings_file, to_toml

_MOST_BYTES = 2 * 10**6  # of a file; its end is kept
_MOST_JOBS = 20  # the newest


def write(
    path: Path,
    lines: Sequence[DoctorLine],
    *,
    with_names: bool = False,
    added: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write the archive; an existing file is replaced.

    Args:
        path: A .zip.
        lines: Findings of the self-test.
        with_names: Keep names of files, folders and computers, titles and metadata of videos.
        added: Further files by their name: a text, or plain data that is stored as JSON.

    Raises:
        OutputError: It cannot be written.
    """
    store = JobStore(paths.jobs_folder())
    redaction = Redaction(_known_names(store), store.ids(), with_names=with_names)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in _files(lines, store, redaction):
            archive.writestr(name, text)
        for name, content_of in added.items():
            archive.writestr(name, _added(content_of, redaction))
    with writing(path):
        atomic_file.write_bytes(path, content.getvalue())


def _files(
    lines: Sequence[DoctorLine], store: JobStore, redaction: Redaction
) -> Iterator[tuple[str, str]]:
    """Name in the archive and text of each file, redacted."""
    about = f"Upreel {__version__}\nPython {platform.python_version()}\n{platform.platform()}\n"
    yield "about.txt", about
    found = "".join(f"{one.state:<8} {one.name}: {one.message}\n" for one in lines)
    yield "doctor.txt", redaction.redacted(found)
    yield "settings.toml", _settings(redaction)
    for log in sorted(paths.logs_folder().glob("*.log*")):
        yield f"logs/{log.name}", redaction.redacted(_text(log))
    for job_id in store.ids()[-_MOST_JOBS:]:
        yield f"jobs/{job_id}/job.json", _job(store, job_id, redaction)
        log = store.folder(job_id) / "job.log"
        yield f"jobs/{job_id}/job.log", redaction.redacted(_text(log))


def _added(content: Any, redaction: Redaction) -> str:
    if isinstance(content, str):
        return redaction.redacted(content)
    return json.dumps(redaction.texts(content), indent=1, ensure_ascii=False) + "\n"


def _settings(redaction: Redaction) -> str:
    """Values of settings; a file that is no TOML has texts in unknown places, and stays out."""
    try:
        return to_toml(redaction.plain(read_toml(settings_file())))
    except OSError as err:
        return f"not readable: {err.strerror or type(err).__name__}\n"
    except ValueError as err:
        return f"not readable: {type(err).__name__}\n"


def _text(path: Path) -> str:
    """The end of a file; why it cannot be read where it cannot."""
    try:
        return path.read_bytes()[-_MOST_BYTES:].decode("utf-8", "replace")
    except OSError as err:
        return f"not readable: {err.strerror or type(err).__name__}\n"


def _job(store: JobStore, job_id: str, redaction: Redaction) -> str:
    """Source, settings and plan; a damaged record has texts in unknown places, and stays out."""
    try:
        data = to_plain(store.load(job_id))
    except EngineError as err:
        return redaction.redacted(f"{err.code}: {err.message}\n")
    return json.dumps(redaction.plain(data), indent=1, ensure_ascii=False)


def _known_names(store: JobStore) -> Iterator[str]:
    """Names that may stand in a text by themselves: of this user, computers, files of jobs."""
    with suppress(OSError, KeyError):
        yield getpass.getuser()
    yield Path.home().name
    yield platform.node()
    for wing in wings():
        yield from wing.private_names()
    for job_id in store.ids():
        with suppress(EngineError):
            stored = store.load(job_id)
            for path in (stored.media.path, stored.plan.output):
                yield from (path.name, path.stem, path.parent.name)
