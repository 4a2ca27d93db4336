"""Downloads of published model files."""

from __future__ import annotations

import logging
import os

from engine.core.errors import HashMismatch
from engine.downloads.download import fetch
from engine.downloads.transfer import Listener, RemoteFile
from engine.model_files.catalogue import PublishedFile
from engine.model_files.store import Store

logger = logging.getLogger(__name__)

_HUB = "https://huggingface.co/"


def download(file: PublishedFile, store: Store, listener: Listener | None = None) -> None:
    """Make sure that a published file is on this machine and right.

    A copy that was not read yet is read first, also one in another program's folder: the network is
    used only without a right one. Whatever goes wrong, what was downloaded stays in "<name>.part",
    and the next call continues there.

    Raises:
        WeightsBusy: Another thread or process holds the file.
        DownloadFailed: No server delivered it.
        HashMismatch: What came is not the published file; it was quarantined.
        DiskFull, OutputUnwritable: The folder cannot take it.
        Cancelled: The listener's control was cancelled.
    """
    listener = listener or Listener()
    with store.held(file.id):
        if not _is_right(file, store, listener):
            fetch(remote_file(file, store), store, listener)
            store.note(store.target(file.filename), file.sha256)


def remote_file(file: PublishedFile, store: Store) -> RemoteFile:
    """A published file with its addresses: the user's mirror, then where it was published.

    `UPREEL_MIRROR` replaces every host; `HF_ENDPOINT`, known from other tools, Hugging Face.
    """
    published = store.catalogue.addresses(file)
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    if endpoint:
        published = tuple(url.replace(_HUB, f"{endpoint}/", 1) for url in published)
    mirror = os.environ.get("UPREEL_MIRROR", "").rstrip("/")
    path = f"{file.repository}/resolve/{file.revision}/{file.place or file.filename}"
    return RemoteFile(
        id=file.id,
        name=file.filename,
        urls=(f"{mirror}/{path}", *published) if mirror else published,
        sha256=file.sha256,
        bytes=file.bytes,
    )


def _is_right(file: PublishedFile, store: Store, listener: Listener) -> bool:
    """Whether a right copy is here already; copies that were not read yet are read."""
    state = store.standing_of(file.id).state
    if state != "unverified":
        return state == "here"
    try:
        store.check(file.id, on_progress=listener.on_progress, control=listener.control)
    except HashMismatch as err:
        logger.warning("%s", err.message)
        return _is_right(file, store, listener)  # there may be another copy
    return True
