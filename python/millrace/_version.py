"""The version of the package; the library has to be of the same one. Generated: do not edit."""

__version__ = "0.1.0"
