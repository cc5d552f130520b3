"""Sizes and offsets of points at which float32, or even float64, loses what it compares."""

SCALES = {
    "plain": (1.0, 0.0),
    "far away": (1.0, 1e5),
    "very far away": (1.0, 1e12),
    "tiny": (1e-30, 0.0),
    "beyond float32": (1e60, 0.0),
    "near the largest": (1e150, 0.0),
    "below float32": (1e-160, 0.0),
}
