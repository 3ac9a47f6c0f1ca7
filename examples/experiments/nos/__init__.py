"""Heterogeneous cells, guided by a teacher, and self-calibration."""
