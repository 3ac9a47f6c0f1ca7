"""Continuous convolutional networks whose architecture is learned."""
