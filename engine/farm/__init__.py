"""Other computers: their identities, which of them are paired, how they find each other.

A pairing is the right to run code on both computers, so each trusts nothing but the certificates of
those that a user has paired it with.
"""
