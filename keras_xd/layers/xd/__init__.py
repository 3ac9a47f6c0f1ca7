"""XD-operations: searchable linear operations by K-matrices, and what they become."""
