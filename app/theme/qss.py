"""Theme to Qt: style sheet and QPalette."""

from __future__ import annotations

from PySide6.QtGui import QColor, QPalette

from app.theme import tokens
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
    for name in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(disabled, name, QColor(theme.text_3))
    return palette


def style_sheet(theme: Theme) -> str:
    """The style sheet of the whole program."""
    return "\n".join(part(theme) for part in (_surfaces, _labels, _buttons, _fields, _others))


def _surfaces(t: Theme) -> str:
    return f"""
QMainWindow, QDialog {{ background: {t.background}; }}
QWidget#toolBar {{ background: {t.surface_1}; border-bottom: 1px solid {t.line}; }}
QWidget#statusBar {{ background: {t.surface_1}; }}
QWidget#queueColumn {{ background: {t.surface_1}; border-right: 1px solid {t.line}; }}
QWidget#queueStrip {{ background: {t.surface_1}; border-right: 1px solid {t.line}; }}
QFrame[kind="sheet"] {{ background: {t.surface_1}; border: 1px solid {t.line}; }}
QFrame[kind="sheet"] QWidget#queueColumn {{ border: none; }}
QWidget#choicesColumn {{ background: {t.surface_1}; border-left: 1px solid {t.line}; }}
QWidget#resultForm {{ border-top: 1px solid {t.line}; }}
QFrame[kind="card"], QFrame[kind="chosen-card"], QFrame[kind="notice"] {{
  background: {t.surface_2}; border: 1px solid {t.line}; border-radius: {tokens.CARD_RADIUS}px; }}
QFrame[kind="notice"] {{ border-color: {t.information}; }}
QFrame[kind="chosen-card"] {{ border: 2px solid {t.accent}; }}
QFrame[kind="rule"] {{ background: {t.line}; border: none; max-height: 1px; min-height: 1px; }}
QFrame[kind="chip"] {{
  background: {t.surface_2}; border: 1px solid {t.line}; border-radius: 15px; }}
QFrame[kind="segments"] {{
  background: {t.surface_2}; border: 1px solid {t.line}; border-radius: {tokens.RADIUS + 2}px; }}
QScrollArea, QScrollArea > QWidget > QWidget#scrolled {{ background: transparent; border: none; }}
QStatusBar {{ background: {t.surface_1}; border-top: 1px solid {t.line}; }}
QStatusBar::item {{ border: none; }}
QDockWidget {{ color: {t.text_1}; }}
QWidget#logHead {{ background: {t.surface_1}; border-top: 1px solid {t.line}; }}
QToolTip {{
  background: {t.surface_3}; color: {t.text_1}; border: 1px solid {t.line};
  padding: 4px 8px; }}
"""


def _labels(t: Theme) -> str:
    return f"""
QLabel {{ background: transparent; color: {t.text_1}; }}
QLabel[kind="secondary"] {{ color: {t.text_2}; font-size: {tokens.SMALL_PX}px; }}
QLabel[kind="spilled"] {{
  color: {t.error}; font-size: {tokens.SMALL_PX}px; font-weight: 600; }}
QLabel[kind="small"] {{ font-size: {tokens.SMALL_PX}px; }}
QLabel[kind="planned"] {{
  color: {t.information}; border: 1px solid {t.information}; border-radius: 6px;
  font-size: {tokens.SMALL_PX}px; padding: 4px 8px; }}
QLabel:disabled, QLabel[kind="secondary"]:disabled {{ color: {t.text_3}; }}
QLabel[kind="section"] {{ color: {t.text_2}; font-weight: 600; }}
QLabel[kind="title"] {{ font-size: {tokens.TITLE_PX}px; font-weight: 600; }}
QLabel[kind="headline"] {{ font-size: 22px; font-weight: 600; }}
QLabel[kind="figure"] {{ font-size: {tokens.FIGURE_PX}px; font-weight: 700; }}
QLabel[kind="gauge"], QLabel[kind="strong"] {{ font-weight: 600; }}
QLabel[kind="word"] {{ font-size: 22px; font-weight: 600; }}
QLabel[kind="lead"] {{ color: {t.text_2}; font-size: 15px; }}
QLabel[kind="good"] {{ color: {t.accent}; font-weight: 600; }}
QLabel[kind="warning"] {{ color: {t.warning}; font-weight: 600; }}
QLabel[kind="problem"] {{ color: {t.error}; font-size: {tokens.SMALL_PX}px; }}
QLabel[kind="error"] {{ color: {t.error}; font-weight: 600; }}
"""


def _buttons(t: Theme) -> str:
    return f"""
QPushButton, QToolButton {{
  background: {t.surface_2}; color: {t.text_1}; border: 1px solid {t.line};
  border-radius: {tokens.RADIUS}px; padding: 6px 12px; }}
QPushButton:hover, QToolButton:hover {{ background: {t.hovered}; }}
QPushButton:pressed, QToolButton:pressed {{ background: {t.surface_3}; }}
QToolButton:checked {{ background: {t.surface_3}; border: 1px solid {t.accent}; }}
QPushButton:focus, QToolButton:focus {{ border: 2px solid {t.accent}; padding: 5px 11px; }}
QPushButton:disabled, QToolButton:disabled {{ color: {t.text_3}; background: {t.surface_2}; }}
QPushButton[kind="primary"] {{
  background: {t.accent}; color: {t.on_accent}; border: 1px solid {t.accent};
  border-radius: 10px; font-size: 15px; font-weight: 600; padding: 10px 20px; }}
QPushButton[kind="primary"]:hover {{ background: {t.accent_hover}; }}
QPushButton[kind="primary"]:focus {{
  border: 2px solid {t.text_1}; padding: 9px 19px; }}
QPushButton[kind="primary"]:disabled {{
  background: {t.surface_3}; color: {t.text_3}; border-color: {t.surface_3}; }}
QPushButton[kind="large"] {{ border-radius: 10px; font-size: 15px; padding: 10px 16px; }}
QPushButton[kind="large"]:focus {{ padding: 9px 15px; }}
QPushButton[kind="quiet"], QToolButton[kind="quiet"] {{
  background: transparent; border: 1px solid transparent; color: {t.text_2}; }}
QPushButton[kind="quiet"]:hover, QToolButton[kind="quiet"]:hover {{
  background: {t.hovered}; color: {t.text_1}; }}
QPushButton[kind="quiet"]:focus, QToolButton[kind="quiet"]:focus {{
  border: 2px solid {t.accent}; }}
QToolButton[kind="icon"] {{ padding: 6px 8px; }}
QToolButton[kind="icon"]:focus {{ padding: 5px 7px; }}
QToolButton[kind="more"] {{
  background: transparent; border: 1px solid transparent; padding: 6px; }}
QToolButton[kind="more"]:hover {{ background: {t.hovered}; }}
QToolButton[kind="more"]:focus {{ border: 2px solid {t.accent}; padding: 5px; }}
QPushButton[kind="link"] {{
  background: transparent; border: 1px solid transparent; border-radius: 4px;
  color: {t.information}; font-size: {tokens.SMALL_PX}px; text-align: left; padding: 2px 0; }}
QPushButton[kind="link"]:hover {{ color: {t.text_1}; }}
QPushButton[kind="link"]:focus {{ border: 1px solid {t.accent}; }}
QPushButton[kind="page"] {{ margin: 12px 16px; }}
QPushButton[kind="fold"] {{ text-align: left; padding: 6px 12px; }}
QToolButton[kind="fold"]:checked:!focus {{ background: {t.surface_2}; border-color: {t.line}; }}
QPushButton[kind="cell"] {{ padding: 6px 2px; }}
QPushButton[kind="cell"]:focus {{ padding: 5px 1px; }}
QPushButton[kind="segment"] {{
  background: transparent; border: 1px solid transparent; color: {t.text_2};
  border-radius: 7px; padding: 5px 4px; }}
QPushButton[kind="segment"]:hover {{ color: {t.text_1}; }}
QPushButton[kind="segment"]:checked {{
  background: {t.surface_3}; color: {t.text_1}; font-weight: 600; }}
QPushButton[kind="segment"]:focus {{ border: 2px solid {t.accent}; padding: 4px 3px; }}
QPushButton[kind="segment"]:disabled {{ color: {t.text_3}; }}
QPushButton::menu-indicator, QToolButton::menu-indicator {{ image: none; width: 0; }}
"""


def _fields(t: Theme) -> str:
    return f"""
QComboBox, QLineEdit, QSpinBox, QDoubleSpinBox {{
  background: {t.surface_2}; color: {t.text_1}; border: 1px solid {t.line};
  placeholder-text-color: {t.text_3};
  border-radius: {tokens.RADIUS}px; padding: 0 10px; min-height: {tokens.CONTROL_HEIGHT - 2}px;
  selection-background-color: {t.accent}; selection-color: {t.on_accent}; }}
QSpinBox::up-button, QSpinBox::down-button,
QDoubleSpinBox::up-button, QDoubleSpinBox::down-button {{
  width: 0; height: 0; subcontrol-origin: border; }}
QComboBox:hover, QLineEdit:hover, QSpinBox:hover, QDoubleSpinBox:hover {{
  border-color: {mixed(t.text_2, t.line, 0.35)}; }}
QComboBox:focus, QLineEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus {{
  border: 2px solid {t.accent}; padding: 0 9px; min-height: {tokens.CONTROL_HEIGHT - 4}px; }}
QComboBox:disabled, QLineEdit:disabled, QSpinBox:disabled, QDoubleSpinBox:disabled {{
  color: {t.text_3}; }}
QLineEdit[wrong="true"] {{ border: 2px solid {t.error}; padding: 0 9px; }}
QComboBox::drop-down {{ border: none; width: 28px; }}
QComboBox::down-arrow {{ image: none; }}
QComboBox QAbstractItemView {{
  background: {t.surface_2}; color: {t.text_1}; border: 1px solid {t.line};
  selection-background-color: {t.surface_3}; selection-color: {t.text_1};
  outline: none; padding: 4px; }}
QComboBox QAbstractItemView::item {{ min-height: 28px; padding: 0 6px; border-radius: 6px; }}
QComboBox QAbstractItemView::item:disabled {{ color: {t.text_3}; }}
QSlider {{ min-height: 22px; }}
QSlider::groove:horizontal {{ height: 4px; background: {t.surface_3}; border-radius: 2px; }}
QSlider::sub-page:horizontal {{ background: {t.accent}; border-radius: 2px; }}
QSlider::handle:horizontal {{
  width: 16px; height: 16px; margin: -6px 0; border-radius: 8px; background: {t.text_1}; }}
QSlider::handle:horizontal:focus {{
  border: 2px solid {t.accent}; background: {t.surface_1}; width: 12px; height: 12px; }}
QSlider::sub-page:horizontal:disabled {{ background: {t.text_3}; }}
QSlider::handle:horizontal:disabled {{ background: {t.text_3}; }}
"""


def _others(t: Theme) -> str:
    return f"""
QTableView {{
  background: {t.surface_1}; color: {t.text_1}; border: 1px solid {t.line};
  border-radius: {tokens.RADIUS}px; outline: none; gridline-color: {t.line};
  selection-background-color: {t.surface_3}; selection-color: {t.text_1}; }}
QTableView:focus {{ border: 1px solid {t.accent}; }}
QTableView::item {{ padding: 4px 6px; border-bottom: 1px solid {t.line}; }}
QHeaderView {{ background: transparent; }}
QHeaderView::section {{
  background: {t.surface_1}; color: {t.text_2}; border: none; font-weight: 600;
  border-bottom: 1px solid {t.line}; padding: 6px 9px; }}
QListView {{ background: transparent; border: none; outline: none; }}
QRadioButton {{ font-weight: 600; spacing: 8px; }}
QRadioButton::indicator {{
  width: 14px; height: 14px; border: 1px solid {t.text_2}; border-radius: 8px; }}
QRadioButton::indicator:checked {{
  width: 6px; height: 6px; border: 5px solid {t.accent}; border-radius: 8px; }}
QPlainTextEdit {{
  background: {t.background}; color: {t.text_2}; border: none; padding: 8px 12px;
  selection-background-color: {t.accent}; selection-color: {t.on_accent}; }}
QTextBrowser {{
  background: {t.surface_1}; color: {t.text_1}; border: 1px solid {t.line};
  border-radius: {tokens.RADIUS}px; padding: 8px 12px;
  selection-background-color: {t.accent}; selection-color: {t.on_accent}; }}
QTextBrowser:focus {{ border: 1px solid {t.accent}; }}
QMenu {{
  background: {t.surface_2}; color: {t.text_1}; border: 1px solid {t.line}; padding: 4px; }}
QMenu::item {{ padding: 6px 24px 6px 12px; border-radius: 6px; }}
QMenu::item:selected {{ background: {t.surface_3}; }}
QMenu::item:disabled {{ color: {t.text_3}; }}
QMenu::separator {{ height: 1px; background: {t.line}; margin: 4px 8px; }}
QMenu::icon {{ padding-left: 8px; }}
QScrollBar:vertical {{ background: transparent; width: 10px; margin: 2px; }}
QScrollBar:horizontal {{ background: transparent; height: 10px; margin: 2px; }}
QScrollBar::handle {{ background: {t.surface_3}; border-radius: 3px; min-height: 28px; }}
QScrollBar::handle:hover {{ background: {t.line}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
"""
