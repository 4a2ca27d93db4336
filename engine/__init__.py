"""Upreel's engine: everything but the window; it knows nothing of Qt."""

from engine import environment

environment.prepare()  # here, since whatever loads torch has imported this package first
