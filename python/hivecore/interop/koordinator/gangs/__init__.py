"""Reads Koordinator's gangs from PodGroups and pods, and writes their annotations and status."""
