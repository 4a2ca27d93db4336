"""Upreel's window: shows the events of the engine and sends it commands; the only place with Qt."""

import builtins

import PySide6.QtCore  # noqa: F401 - its import sets the hook that is taken away below

# PySide's import hook looks for `__feature__`, which is not used here, in the source of each module
# that is imported, and the sources stay in memory: with torch 50 MB, and a fifth of the time that
# it takes to load. PySide keeps Python's own function.
builtins.__import__ = getattr(builtins, "__orig_import__", builtins.__import__)
