"""Koordinator's network topology: the layers of a cluster, and what a gang asks of them."""
