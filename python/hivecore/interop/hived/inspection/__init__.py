"""HiveD's inspect API: what all cells and groups look like, as plain data and as JSON."""
