"""The plan of a job: does it fit, memory, time, notices, reasons."""
