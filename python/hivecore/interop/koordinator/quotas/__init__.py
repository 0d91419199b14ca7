"""Koordinator's elastic quotas: what its objects and its pods say, and what is written on them."""
