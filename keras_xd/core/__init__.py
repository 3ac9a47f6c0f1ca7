"""What every search space shares: checks, files, random state, and the protocol."""
