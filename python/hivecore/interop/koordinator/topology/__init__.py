"""Koordinator's network topology: its layers, what gangs ask of it, and where their pods go."""
