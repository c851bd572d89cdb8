"""The `millrace` program as a child process."""
