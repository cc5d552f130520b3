"""Programs whose tasks C starts by itself."""
