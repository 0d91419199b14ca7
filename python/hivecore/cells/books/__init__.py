"""The books of a cluster: names for its numbers, its live groups, and what is read of them."""
