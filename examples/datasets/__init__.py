"""Data of the examples: each module loads or generates one kind."""
