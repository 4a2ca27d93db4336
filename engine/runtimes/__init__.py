"""Which build of torch this program uses: its own, or an NVIDIA runtime that was installed."""
