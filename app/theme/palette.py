"""Theme to QPalette: what Qt's own controls take their colours from."""

from __future__ import annotations

from PySide6.QtGui import QColor, QPalette

from app.theme.tokens import Theme, mixed


def palette_of(theme: Theme) -> QPalette:
    """All roles that Qt's Fusion style reads, disabled ones included."""
    role = QPalette.ColorRole
    palette = QPalette()
    colours = {
        role.Window: theme.background,
        role.WindowText: theme.text_1,
        role.Base: theme.surface_2,
        role.AlternateBase: theme.surface_3,
        role.Text: theme.text_1,
        role.PlaceholderText: theme.text_2,
        role.Button: theme.surface_2,
        role.ButtonText: theme.text_1,
        role.BrightText: theme.error,
        role.Highlight: theme.accent,
        role.HighlightedText: theme.on_accent,
        role.ToolTipBase: theme.surface_3,
        role.ToolTipText: theme.text_1,
        role.Link: theme.information,
        role.Light: theme.surface_3,
        role.Midlight: theme.surface_3,
        role.Mid: theme.line,
        role.Dark: theme.line,
        role.Shadow: theme.background,
    }
    for name, colour in colours.items():
        palette.setColor(name, QColor(colour))
    disabled = QPalette.ColorGroup.Disabled
    faded = QColor(mixed(theme.text_2, theme.surface_1, 0.6))
    for name in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(disabled, name, faded)
    return palette
