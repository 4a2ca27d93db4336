"""What the machine does: gauges, plan, log."""
