"""The C library: its declarations, its errors, who owns what it returns."""
