"""Files to frames and frames to files; types of PyAV never leave this folder."""
