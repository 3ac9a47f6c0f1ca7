"""K-operations in place of convolutions: the experiments of the Chrysalis."""
