"""Upreel's engine: everything but the window; it knows nothing of Qt."""

from engine.runtimes import environment

__version__ = "0.1.0"  # as in pyproject.toml; what an update is compared with

environment.prepare()  # here, since whatever loads torch has imported this package first
