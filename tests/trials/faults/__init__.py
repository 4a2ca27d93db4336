"""Faults on purpose: damaged files, hostile servers, failing system calls, killed jobs.

`python -m tests.trials.faults` runs many cases and writes `docs/reliability.md`;
`tests/test_trials/test_faults.py` runs a few of each group with every change.
"""
