"""Other computers: a wing of the engine. Pairing, discovery, lending, and their part of jobs.

A pairing is the right to run code on both computers, so each trusts nothing but the certificates of
those that a user has paired it with.
"""
