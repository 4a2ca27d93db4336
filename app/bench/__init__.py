"""The page of the benchmark: speed test, table of optimisations, report to copy."""
