"""The version of the package; the library has to be of the same one."""

__version__ = "0.1.0"
