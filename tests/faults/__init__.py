"""Faults on purpose: damaged files, hostile servers, failing system calls, killed jobs.

`python -m tests.faults` runs many cases and writes `docs/reliability.md`; `test_sample.py` runs a
few of each group with every change.
"""
