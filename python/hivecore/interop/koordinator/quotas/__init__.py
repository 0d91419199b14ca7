"""Reads Koordinator's elastic quotas from its objects and pods, and writes their status."""
