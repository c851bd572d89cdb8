"""What a Dataset is made of: tracing, arguments, reading."""
