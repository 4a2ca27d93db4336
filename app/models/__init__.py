"""Model files on this computer: download, verify, import, remove."""
