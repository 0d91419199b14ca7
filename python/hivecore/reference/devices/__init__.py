"""The twins of the devices kernel."""
