"""Downloads of published files: they go on where they ended, and end when their hash is right."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from engine.core import atomic_file
from engine.core.errors import DownloadFailed, EngineError, HashMismatch
from engine.downloads.part_file import PartFile
from engine.downloads.transfer import Listener, Transfer, host
from engine.model_files.catalogue import PublishedFile
from engine.model_files.store import Store

logger = logging.getLogger(__name__)

_HUB = "https://huggingface.co/"


def download(file: PublishedFile, store: Store, listener: Listener | None = None) -> None:
    """Make sure that a published file is here and right.

    A copy that nobody has read yet is read first, also one in another program's folder: only
    without a right one the network is asked. Whatever goes wrong, what was loaded stays in
    "<name>.part", and the next call goes on there.

    Raises:
        WeightsBusy: Somebody is at the file already.
        DownloadFailed: No server gave it.
        HashMismatch: What came is not the published file; it was put aside.
        DiskFull, OutputUnwritable: Our folder cannot take it.
        Cancelled: The listener's control said so.
    """
    listener = listener or Listener()
    with store.held(file.id):
        if _is_right(file, store, listener):
            return
        part = store.shelf.part(file.filename)
        _fill(part, file, store, listener)
        target = store.target(file.filename)
        if target.exists():
            logger.warning("%s", store.quarantined(target, file.state()).message)
        with store.writing():
            atomic_file.replace(part, target)
        store.note(target, file.sha256)


def addresses(file: PublishedFile, store: Store) -> tuple[str, ...]:
    """Where to ask for a file, in this order: the user's mirror, then where it was published.

    `UPREEL_MIRROR` stands for every host; `HF_ENDPOINT`, as other tools know it, for Hugging Face.
    """
    published = store.catalogue.addresses(file)
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    if endpoint:
        published = tuple(url.replace(_HUB, f"{endpoint}/", 1) for url in published)
    mirror = os.environ.get("UPREEL_MIRROR", "").rstrip("/")
    path = f"{file.repository}/resolve/{file.revision}/{file.place or file.filename}"
    return (f"{mirror}/{path}", *published) if mirror else published


def _is_right(file: PublishedFile, store: Store, listener: Listener) -> bool:
    """Whether a right copy is here already; those that nobody has read are read."""
    state = store.standing_of(file.id).state
    if state != "unverified":
        return state == "here"
    try:
        store.check(file.id, tell=listener.tell, control=listener.control)
    except HashMismatch as err:
        logger.warning("%s", err.message)
        return _is_right(file, store, listener)  # there may be another copy
    return True


def _fill(path: Path, file: PublishedFile, store: Store, listener: Listener) -> None:
    """Return when `path` is the published file; each address goes on where the last one ended."""
    failure: EngineError | None = None
    for url in addresses(file, store):
        try:
            while True:
                with PartFile(path, store.writing, listener.tell, listener.control) as part:
                    began_anew = part.bytes == 0
                    if Transfer(file, part, store.need, listener).run(url):
                        return
                failure = store.quarantined(path, file.state())
                if began_anew:
                    break  # it was not the rest of an older try that was wrong
        except DownloadFailed as err:
            failure = err
        logger.warning("%s from %s: %s", file.id, host(url), failure.message)
    assert failure is not None, "every published file has an address"
    raise failure
