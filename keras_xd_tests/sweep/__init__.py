"""Random configurations of every family of layers against what they must compute."""
