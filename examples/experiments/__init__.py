"""The long experiments, a folder for each paper or method."""
