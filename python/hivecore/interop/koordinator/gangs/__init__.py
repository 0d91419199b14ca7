"""Koordinator's gangs: what its PodGroups and its pods say, and what is written on them."""
