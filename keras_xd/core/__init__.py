"""What every search space shares: checks, files, random state, and the protocol."""

__all__: list[str] = []
