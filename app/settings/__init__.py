"""Editors built from engine.settings.schema."""
