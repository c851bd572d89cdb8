"""Functions that are traced: symbolic tensors and the operators on them."""
