"""HiveD's configuration file: read, checked as a whole, with all mistakes at once."""
