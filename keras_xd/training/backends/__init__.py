"""The one step that each backend of Keras takes in its own way."""

__all__: list[str] = []
