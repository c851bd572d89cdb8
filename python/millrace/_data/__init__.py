"""What elements look like and are made of: structures, specs, blocks."""
