"""Koordinator's network topology: its layers, the rules of gangs, and the nodes of their pods."""
