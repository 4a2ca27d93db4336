"""Files that the program wrote for itself: one that makes no sense any more stops nothing."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from engine.core.errors import EngineError

logger = logging.getLogger(__name__)

_ASIDE = ".damaged"


@contextlib.contextmanager
def set_aside(path: Path) -> Iterator[None]:
    """Ends a block that reads a file at the first error in it; without the file it ends too.

    A file whose content is wrong is renamed to `<name>.damaged`, so that the next one takes its
    place and nothing is lost. One that the disk does not give stays. Both are logged.
    """
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as err:
        logger.warning("%s cannot be read: %s", path, err)
    except (ValueError, TypeError, KeyError, AttributeError, EngineError) as err:
        aside = path.with_name(f"{path.name}{_ASIDE}")
        logger.warning("%s is set aside as %s: %s", path, aside.name, err)
        with contextlib.suppress(OSError):  # a read-only folder
            path.replace(aside)
