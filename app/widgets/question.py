"""One question with two answers; Enter and Escape take the careful one."""

from __future__ import annotations

from PySide6.QtWidgets import QMessageBox, QWidget


def is_confirmed(parent: QWidget, text: str, details: str = "", *, yes: str, no: str) -> bool:
    """Ask and wait.

    Args:
        parent: Window that the question belongs to.
        text: The question.
        details: What it would mean, smaller.
        yes: Text of the button that does it.
        no: Text of the button that leaves everything as it is.
    """
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Question)
    box.setWindowTitle("Upreel")
    box.setText(text)
    box.setInformativeText(details)
    accept = box.addButton(yes, QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(no, QMessageBox.ButtonRole.RejectRole))
    box.exec()
    return box.clickedButton() is accept
