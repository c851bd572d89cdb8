"""What mr.experimental has that is no method of Dataset."""
