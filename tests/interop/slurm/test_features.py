"""Constraints of jobs on features of nodes, as sbatch takes them."""

import pytest

from hivecore.interop.slurm.live.features import has_features


@pytest.mark.parametrize(
    ("constraint", "fits"),
    [
        ("", True),
        ("a", True),
        ("c", False),
        ("a&b", True),
        ("a,c", False),
        ("a&c", False),
        ("c|b", True),
        ("c|d", False),
        ("b|c&d", False),  # from left to right
        ("b|(c&d)", True),
        ("(a&b)|c", True),
        ("[c|(a&b)]", True),
        ("((a))", True),
    ],
)
def test_a_node_has_what_a_constraint_asks_for(constraint, fits):
    assert has_features(constraint, ["a", "b"]) is fits


@pytest.mark.parametrize("constraint", ["a*2", "a&", "&a", "(a", "a)", "(a]b", "()", "a b", "a||b"])
def test_what_cannot_be_kept_to_node_by_node_is_refused(constraint):
    with pytest.raises(ValueError, match="constraint="):
        has_features(constraint, ["a", "b"])


def test_several_nodes_have_the_same_of_several_features_only_together():
    with pytest.raises(ValueError, match="all nodes of a job together"):
        has_features("[a|b]", ["a"], alone=False)
