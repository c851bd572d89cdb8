"""What needs neither the library nor NumPy arrays: hints for wrong names, protobuf's bytes."""
