"""Processes that are killed and disks that fill up while they work."""
