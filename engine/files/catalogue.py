"""Published model files, from resources/catalogue.toml, and the state of each on this machine."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePosixPath

import filelock

from engine.core import atomic_file
from engine.core.errors import UnknownWeights, WeightsError
from engine.core.paths import resource
from engine.core.serialization import from_plain, read_json, read_toml, set_aside, to_plain
from engine.files.artifacts import ArtifactFolder
from engine.files.hashing import FileIdentity
from engine.protocol.model_file_state import Copy, PublishedState, State

# From the most exact to the smallest: the order of preference without a request.
PRECISIONS = ("fp16", "q8", "int8", "mxfp8", "fp8", "q4")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFile(PublishedState):
    """One weights file of a model, or a library of it, and where it is published."""

    host: str = ""  # "": it is not downloaded, the user brings it
    revision: str = "main"

    def as_state(self) -> PublishedState:
        """The file as plain data, in the state "missing"."""
        names = (one.name for one in fields(PublishedState))
        return PublishedState(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCatalogue:
    """Every published file, and the address templates of their hosts."""

    hosts: dict[str, str]
    files: tuple[PublishedFile, ...]

    def __iter__(self) -> Iterator[PublishedFile]:
        return iter(self.files)

    def file(self, file_id: str) -> PublishedFile:
        """One file by its id; raises UnknownWeights where there is none."""
        for file in self.files:
            if file.id == file_id:
                return file
        raise unknown(file_id)

    def addresses(self, file: PublishedFile) -> tuple[str, ...]:
        """Addresses of a file, the preferred one first; none of what the user brings."""
        if not file.host:
            return ()
        first = Copy(repository=file.repository, revision=file.revision, place=file.place)
        return tuple(
            self.hosts[copy.host or file.host].format(
                repository=copy.repository,
                revision=copy.revision,
                filename=copy.place or file.filename,
            )
            for copy in (first, *file.also)
        )


def load(path: Path) -> ModelCatalogue:
    """Read a catalogue; raises WeightsError where the program's own files are incomplete."""
    try:
        return from_plain(ModelCatalogue, read_toml(path))
    except (OSError, ValueError, TypeError, KeyError) as err:
        raise WeightsError("catalogue", path=path) from err


@cache
def catalogue() -> ModelCatalogue:
    """The catalogue of this program."""
    return load(resource("catalogue.toml"))


def precisions_of(model_id: str) -> tuple[str, ...]:
    """Precisions that a model was published in, the most exact one first."""
    found = {f.precision for f in catalogue() if f.kind == "dit" and model_id in f.models}
    return tuple(precision for precision in PRECISIONS if precision in found)


def files_of(model_id: str, precision: str) -> tuple[tuple[str, ...], ...]:
    """Ids of the files that a model needs: transformers, VAEs and text embeddings.

    One of each is enough; the first is the one to download.

    Raises:
        UnknownWeights: The model was not published in that precision; the hint lists the others.
    """
    mine = [file for file in catalogue() if model_id in file.models]
    dits = tuple(file.id for file in mine if file.kind == "dit" and file.precision == precision)
    if not dits:
        known = ", ".join(precisions_of(model_id))
        case = "precision" if known else "not-published"
        raise UnknownWeights(case, model=model_id, precision=precision, known=known)
    others = (tuple(file.id for file in mine if file.kind == kind) for kind in ("vae", "text"))
    return dits, *others


def best_present(
    model_id: str, states: Iterable[PublishedState]
) -> tuple[PublishedState, PublishedState, PublishedState] | None:
    """The most exact transformer of a model on this machine, with VAE and text embedding.

    Published files come before files of the user's own.

    Returns:
        None unless all three are on this machine.
    """
    here = [state for state in states if state.is_here and model_id in state.models]
    chosen = [
        min((state for state in here if state.kind == kind), key=_rank, default=None)
        for kind in ("dit", "vae", "text")
    ]
    dit, vae, text = chosen
    return None if dit is None or vae is None or text is None else (dit, vae, text)


def best_vae(model_id: str, states: Iterable[PublishedState]) -> PublishedState:
    """The VAE of a model that needs nothing else: the first on this machine, else the first.

    Published files come before files of the user's own.

    Raises:
        UnknownWeights: There is no such model.
    """
    mine = [state for state in states if state.kind == "vae" and model_id in state.models]
    if not mine:
        raise unknown(model_id)
    return min(mine, key=lambda state: (not state.is_here, state.is_own))


def _rank(state: PublishedState) -> tuple[bool, int]:
    known = state.precision in PRECISIONS
    return state.is_own, PRECISIONS.index(state.precision) if known else len(PRECISIONS)


def unknown(file_id: str) -> UnknownWeights:
    """Error for an id that is neither in the catalogue nor a file of the user's own."""
    return UnknownWeights("no-such-file", file=repr(file_id))


# Precision that suits a GPU from a size on (an eighth of it may be missing), the next one below:
# 7B as Q4_K_M was measured by others as good as fp16, as rotated int8 nearer to it than another
# seed, as plain fp8 worse; longer clips are worth more than the last bits of 3B's weights.
_SUITED_7B = ((24 * 2**30, "fp16"), (16 * 2**30, "int8"), (0, "q4"))
_SUITED = {
    "seedvr2-3b": ((12 * 2**30, "fp16"), (0, "q8")),
    "seedvr2-7b": _SUITED_7B,
    "seedvr2-7b-sharp": _SUITED_7B,
}


def suited_precision(model: str, gpu_bytes: int) -> str:
    """The precision to download for a GPU of this size; 0 bytes for the CPU.

    "" for a model without published transformers; else one that the catalogue has:
    of those it does not have, the most exact other one.
    """
    if model not in _SUITED:
        return ""
    suited = next(name for least, name in _SUITED[model] if gpu_bytes >= least * 7 // 8)
    known = precisions_of(model)
    return suited if suited in known or not known else known[0]


# --- states: what is on the disk, in our folder and in those of other programs

_FILE = "files.json"
_LOCK_WAIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HashRecord:
    """One file as it was when its SHA-256 was computed."""

    path: Path
    bytes: int
    modified_ns: int
    sha256: str
    checked_at: str  # "2026-11-20T20:15:00+00:00"
    linked: bool = False  # the user named its path; we only read it
    own: PublishedState | None = None  # description of a file that the catalogue does not have
    changed_ns: int = 0  # 0 in records of earlier versions: the file is read once more

    @property
    def identity(self) -> FileIdentity:
        """State of the file at that time."""
        return FileIdentity(
            bytes=self.bytes, modified_ns=self.modified_ns, changed_ns=self.changed_ns
        )

    def is_current(self) -> bool:
        """True while it is the same file, not written to."""
        try:
            return FileIdentity.of(self.path) == self.identity
        except OSError:
            return False


def record_of(path: Path, sha256: str, identity: FileIdentity) -> HashRecord:
    """A record of a file that was hashed just now."""
    return HashRecord(
        path=path,
        bytes=identity.bytes,
        modified_ns=identity.modified_ns,
        changed_ns=identity.changed_ns,
        sha256=sha256,
        checked_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


class HashCache:
    """The records of one folder in a file that is replaced atomically; shared by processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def records(self) -> tuple[HashRecord, ...]:
        """All records; none where the file is damaged: model files are read once more then."""
        with set_aside(self._folder / _FILE):
            return from_plain(tuple[HashRecord, ...], read_json(self._folder / _FILE))
        return ()

    def add(self, record: HashRecord) -> None:
        """Store a record; it replaces an older one of the same file."""
        with self._changed() as records:
            old = next((known for known in records if known.path == record.path), None)
            if old is not None:
                records.remove(old)
                record = replace(
                    record, linked=record.linked or old.linked, own=record.own or old.own
                )
            records.append(record)

    def forget(self, paths: set[Path]) -> None:
        """Drop the records of files."""
        with self._changed() as records:
            records[:] = [record for record in records if record.path not in paths]

    @contextlib.contextmanager
    def _changed(self) -> Iterator[list[HashRecord]]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(self._folder / f"{_FILE}.lock", timeout=_LOCK_WAIT_S):
            records = list(self.records())
            yield records
            plain = [to_plain(record) for record in records]
            atomic_file.write_json(self._folder / _FILE, plain, indent=1)


_BEST_FIRST: tuple[State, ...] = ("here", "unverified", "partial", "damaged", "missing")
_IN_COMFYUI = ("SEEDVR2", "diffusion_models", "unet", "vae", "checkpoints", "text_encoders")
_USUAL_COMFYUI = ("ComfyUI", "Documents/ComfyUI", "comfy/ComfyUI", "Desktop/ComfyUI")


def file_states(
    folder: ArtifactFolder, files: Iterable[PublishedState], records: Sequence[HashRecord]
) -> list[PublishedState]:
    """The state of every published file, then of every file of the user's own."""
    comfyui = comfyui_folders()
    found = [_published(folder, file, records, comfyui) for file in files]
    for record in records:
        if record.own is not None:
            is_file = record.path.is_file()
            copy = _copy(folder, record.own, record.path, (record,)) if is_file else record.own
            found.append(copy)
    return found


def _published(
    folder: ArtifactFolder,
    file: PublishedState,
    records: Sequence[HashRecord],
    comfyui: Sequence[Path],
) -> PublishedState:
    """State of its best copy, else of an unfinished or quarantined one."""
    read = [r.path for r in records if r.own is None and r.sha256 == file.sha256]
    here = [path for path in (folder.target(file.filename), *read) if path.is_file()]
    paths = dict.fromkeys([*here, *external_copies(file, comfyui)])  # ours come first
    found = [_copy(folder, file, path, records) for path in paths]
    part = folder.part(file.filename)
    if part.is_file():
        found.append(_with(file, "partial", part))
    found += [_with(file, "damaged", path) for path in folder.damaged(file.filename)]
    return min(found, key=lambda copy: _BEST_FIRST.index(copy.state), default=file)


def _copy(
    folder: ArtifactFolder, file: PublishedState, path: Path, records: Sequence[HashRecord]
) -> PublishedState:
    known = next((r for r in records if r.path == path and r.is_current()), None)
    state: State = "unverified"
    if known is not None:
        state = "here" if known.sha256 == file.sha256 else "damaged"
    elif file.bytes and _size(path) != file.bytes:
        state = "damaged"
    return replace(_with(file, state, path), borrowed=not folder.owns(path))


def _with(file: PublishedState, state: State, path: Path) -> PublishedState:
    return replace(file, state=state, path=path, done_bytes=_size(path))


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


# Folders of other programs are read, never changed.


def external_copies(file: PublishedState, comfyui: Sequence[Path]) -> Iterator[Path]:
    """Files of other programs that may be this published one, by name or by the hub's own hash."""
    copies = (Copy(repository=file.repository, place=file.place), *file.also)
    places = {copy: copy.place or file.filename for copy in copies}
    names = {file.filename, *(PurePosixPath(place).name for place in places.values())}
    for folder in comfyui:
        # Windows also opens a file whose name has other capitals.
        yield from sorted(
            path for path in folder.iterdir() if path.name in names and path.is_file()
        )
    for copy, place in places.items():
        kept = hub_cache() / ("models--" + copy.repository.replace("/", "--"))
        if not kept.is_dir():
            continue
        yield from (path for path in sorted(kept.glob(f"snapshots/*/{place}")) if path.is_file())
        if re.fullmatch(r"[0-9a-f]{64}", file.sha256) and (kept / "blobs" / file.sha256).is_file():
            yield kept / "blobs" / file.sha256


def comfyui_folders() -> tuple[Path, ...]:
    """Existing folders of models in ComfyUI.

    `UPREEL_COMFYUI` names one or several installations (separated as in PATH) in place of the usual
    folders; empty it means none.
    """
    named = os.environ.get("UPREEL_COMFYUI")
    if named is None:
        roots = [Path.home() / place for place in _USUAL_COMFYUI]
    else:
        roots = [Path(text) for text in named.split(os.pathsep) if text]
    bases = [base for root in roots for base in (root / "models", root)]
    found = [base / name for base in bases for name in _IN_COMFYUI]
    return tuple(folder for folder in found if folder.is_dir())


def hub_cache() -> Path:
    """Folder where the Hugging Face tools keep their downloads; it need not exist."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name])
    home = os.environ.get("HF_HOME")
    if home:
        return Path(home) / "hub"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "huggingface" / "hub"
