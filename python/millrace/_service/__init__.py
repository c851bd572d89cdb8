"""What mr.service is made of: configs, checks of arguments, jobs."""
