"""A trained model made smaller: what to cut, cutting, and training on."""

__all__: list[str] = []
