"""Selectors of devices in CEL: parsed, checked and compiled into Python closures."""
