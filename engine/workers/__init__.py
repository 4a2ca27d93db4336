"""Several processes of this computer that make spans of one video, through Dask distributed."""
