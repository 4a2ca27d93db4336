"""Named colours and sizes, and what is made of them: palette, style sheet, icons, fonts."""
