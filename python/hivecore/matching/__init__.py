"""Matching: pairs of vertices of the greatest total weight, with a proof (Edmonds 1965)."""

from hivecore.matching.certificate import Certificate
from hivecore.matching.matcher import Matcher
from hivecore.matching.matching import Matching
from hivecore.matching.solve import max_weight_matching, min_weight_matching

__all__ = ["Certificate", "Matcher", "Matching", "max_weight_matching", "min_weight_matching"]
