"""Mixtures of the operations of DARTS."""
