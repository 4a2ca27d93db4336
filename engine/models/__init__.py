"""Families of models; a family never imports another family."""
