"""Structured matrices in place of dense ones: transformers and an MLP, from scratch."""
