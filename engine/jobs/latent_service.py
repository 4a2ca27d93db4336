"""Shows what is in .latent files, one after the other, so that jobs go on meanwhile."""

from __future__ import annotations

import logging
import queue
import threading
from pathlib import Path

from engine.core.errors import EngineError
from engine.jobs.internal_error import internal
from engine.models.latents import LatentFormat
from engine.pipeline.latent_vae import ready_vae
from engine.pipeline.sources import required_latents
from engine.protocol import events as e
from engine.protocol.commands import ShowLatent

logger = logging.getLogger(__name__)


class LatentDesk:
    """Answers ShowLatent in a thread of its own; only the latest that waits is answered.

    Memory: a Wan VAE while a picture is made, in main memory: cards are left to the jobs.
    """

    def __init__(self, sink: e.EventSink) -> None:
        self._sink = sink
        self._waiting: queue.SimpleQueue[ShowLatent | None] = queue.SimpleQueue()  # None: end
        self._thread: threading.Thread | None = None

    def answer(self, command: ShowLatent) -> None:
        """Take a command; returns at once."""
        self._waiting.put(command)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="latents", daemon=True)
            self._thread.start()

    def close(self, timeout_s: float) -> None:
        """End after the present picture, or leave it alone when that takes longer."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(timeout_s)

    def _work(self) -> None:
        while (command := self._latest()) is not None:
            try:
                self._show(command)
            except EngineError as err:
                self._refuse(command, err)
            except Exception as err:  # a mistake of ours ends this picture, not the thread
                logger.exception("while showing %s", command.path)
                self._refuse(command, internal(err))

    def _latest(self) -> ShowLatent | None:
        command = self._waiting.get()
        while command is not None and not self._waiting.empty():
            command = self._waiting.get()
        return command

    def _refuse(self, command: ShowLatent, error: EngineError) -> None:
        logger.warning("%s: %s", command.path, error.message)
        self._sink.emit(e.LatentRefused(path=command.path, error=error.info()))

    def _show(self, command: ShowLatent) -> None:
        latents = required_latents(command.path)
        vae = ready_vae(self._read(latents, command.path), command.vae)
        from engine.pipeline.latent_view import first_picture

        raw, normalised, is_whole = first_picture(latents, command.path, vae, command.longest_side)
        self._sink.emit(
            e.LatentShown(path=command.path, raw=raw, normalised=normalised, is_whole=is_whole)
        )

    def _read(self, latents: LatentFormat, path: Path) -> str:
        """Emit what the file tells; the id of its VAE."""
        header, guess = latents.examined(path)
        self._sink.emit(
            e.LatentRead(
                path=path,
                model=header.model,
                channels=header.channels,
                size=header.film.size,
                frames=header.film.frames,
                frame_rate=header.film.rate,
                guess=guess.reading,
                is_sure=guess.is_sure,
            )
        )
        return header.model
