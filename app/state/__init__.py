"""Item models fed by signals; views read nothing else."""
