"""Twin of `hivecore.topology`, in plain Python."""

from hivecore.reference.topology.placement import Domain, Wish, build, place

__all__ = ["Domain", "Wish", "build", "place"]
