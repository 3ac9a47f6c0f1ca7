"""Searches with KerasTuner: terms of a grammar, and the settings of a search."""
