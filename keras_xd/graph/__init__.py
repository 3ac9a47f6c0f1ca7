"""Reading and copying the graphs of Keras models."""

__all__: list[str] = []
