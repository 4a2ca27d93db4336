"""The files that were published for our models, read from resources/catalogue.toml. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from engine.core.errors import UnknownWeights, WeightsError
from engine.core.paths import resource
from engine.core.serialization import from_plain, read_toml
from engine.protocol.model_file_state import PublishedState

# From the most exact to the smallest: the order of preference without a request.
PRECISIONS = ("fp16", "q8", "fp8", "q4")


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
        return tuple(
            self.hosts[file.host].format(
                repository=repository,
                revision=file.revision,
                filename=file.place or file.filename,
            )
            for repository in (file.repository, *file.also)
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


def files_of(model_id: str, precision: str) -> tuple[str, str, str]:
    """Ids of the files that a model needs: transformer, VAE and text embedding.

    Raises:
        UnknownWeights: The model was not published in that precision; the hint lists the others.
    """
    mine = [file for file in catalogue() if model_id in file.models]
    dits = [file.id for file in mine if file.kind == "dit" and file.precision == precision]
    if not dits:
        known = ", ".join(precisions_of(model_id))
        case = "precision" if known else "not-published"
        raise UnknownWeights(case, model=model_id, precision=precision, known=known)
    vae, text = (next(file.id for file in mine if file.kind == kind) for kind in ("vae", "text"))
    return dits[0], vae, text


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
# 7B as Q4_K_M was measured by others as good as fp16, as plain fp8 worse; longer clips are worth
# more than the last bits of 3B's weights.
_SUITED = {
    "seedvr2-3b": ((12 * 2**30, "fp16"), (0, "q8")),
    "seedvr2-7b": ((24 * 2**30, "fp16"), (0, "q4")),
    "seedvr2-7b-sharp": ((24 * 2**30, "fp16"), (0, "q4")),
}


def suited_precision(model: str, gpu_bytes: int) -> str:
    """The precision to download for a GPU of this size; 0 bytes for the processor.

    "" for a model without published transformers; else one that the catalogue has:
    of those it does not have, the most exact other one.
    """
    if model not in _SUITED:
        return ""
    suited = next(name for least, name in _SUITED[model] if gpu_bytes >= least * 7 // 8)
    known = precisions_of(model)
    return suited if suited in known or not known else known[0]
