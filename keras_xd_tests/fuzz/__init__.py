"""Damaged files, texts and states, which must be refused without harm."""
