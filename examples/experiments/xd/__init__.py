"""XD-operations on images, music and differential equations."""
