"""Reading and copying the graphs of Keras models."""
