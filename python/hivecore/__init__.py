"""The scheduling core that other GPU-cluster schedulers embed."""

from hivecore.errors import HivecoreError

__version__ = "0.1.0"

__all__ = ["HivecoreError", "__version__"]
