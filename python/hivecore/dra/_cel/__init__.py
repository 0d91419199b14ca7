"""CEL selectors of devices: parsed, checked and compiled into Python closures."""
