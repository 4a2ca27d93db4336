"""Several processes of this machine that make spans of one film, through Dask distributed."""
