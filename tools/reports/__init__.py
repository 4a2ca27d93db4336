"""Reports for docs/: preset table, prediction errors, picture quality."""
