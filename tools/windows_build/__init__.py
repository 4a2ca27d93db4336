"""Test build of the Windows program on Linux, under Wine; never shipped."""
