"""The queue and what is chosen for a job."""
