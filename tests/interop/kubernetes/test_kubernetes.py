import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore._quantities import read_quantity, write_binary, write_decimal
from hivecore.interop.kubernetes.documents import objects_of
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import owner_name, requested


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("100", 100),
        ("1.5Gi", 3 << 29),
        ("80Gi", 80 << 30),
        ("1k", 1000),
        ("2M", 2_000_000),
        ("1E", 10**18),
        ("1e3", 1000),
        ("1E3", 1000),
        ("25e-1", None),
        ("1500m", None),
        ("2000m", 2),
        ("3000000u", 3),
        ("4000000000n", 4),
        ("+5", 5),
        ("-5", -5),
        (".5k", 500),
        ("5.", 5),
        (7, 7),
        (8.0, 8),
    ],
)
def test_quantities_are_read_as_kubernetes_does_if_they_are_whole(text, number):
    if number is None:
        with pytest.raises(ValueError, match=r"x: .* is no whole number"):
            read_quantity(text, "x")
    else:
        assert read_quantity(text, "x") == number


@pytest.mark.parametrize(
    "text", ["", "Gi", "1gi", "1 Gi", "0x10", "1e", "e3", "1e999999999", "--1", "٣", "1" * 65]
)
def test_what_is_no_quantity_is_refused_by_name(text):
    with pytest.raises(ValueError, match=r"memory: .* is no quantity"):
        read_quantity(text, "memory")


@given(st.integers(0, 2**63 - 1))
@examples(200)
def test_written_quantities_are_read_as_the_same_number(number):
    assert read_quantity(write_binary(number), "x") == number
    assert read_quantity(write_decimal(number), "x") == number


def amounts(*containers, init=(), **spec):
    def container(amount):
        return (
            {"resources": {"requests": {"r": amount}}} if not isinstance(amount, dict) else amount
        )

    spec |= {"containers": [*map(container, containers)], "initContainers": [*map(container, init)]}
    return requested(Field({"spec": spec}), ["r", "s"])


def stays(amount):
    return {"restartPolicy": "Always", "resources": {"limits": {"r": amount}}}


def test_containers_add_up_and_nothing_is_left_out():
    assert amounts(1, "2") == {"r": 3}
    assert amounts(0) == {}
    assert amounts() == {}


def test_an_init_container_counts_where_it_needs_more_than_all_containers():
    assert amounts(1, 2, init=[5]) == {"r": 5}
    assert amounts(1, 2, init=[2, 2]) == {"r": 3}


def test_an_init_container_that_stays_adds_to_all_that_come_later():
    assert amounts(1, init=[stays(2)]) == {"r": 3}
    assert amounts(1, init=[stays(2), 4]) == {"r": 6}
    assert amounts(1, init=[4, stays(2)]) == {"r": 4}
    assert amounts(1, init=[stays(2), stays(3)]) == {"r": 6}


def test_overhead_comes_on_top_of_the_larger_of_both():
    assert amounts(1, init=[5], overhead={"r": "2"}) == {"r": 7}
    assert amounts(overhead={"r": "2"}) == {"r": 2}


def test_a_limit_stands_in_for_a_missing_request_and_must_equal_a_given_one():
    assert amounts({"resources": {"limits": {"r": 3}}}) == {"r": 3}
    both = {"resources": {"limits": {"r": "1k"}, "requests": {"r": 1000}}}
    assert amounts(both) == {"r": 1000}
    both["resources"]["limits"]["r"] = 2000
    with pytest.raises(
        ValueError, match=r"spec.containers\[0\].resources.requests.r: 1000 differs"
    ):
        amounts(both)


def test_an_owner_is_its_namespace_and_name():
    assert owner_name(Field({"metadata": {"name": "p", "namespace": "team"}})) == "team/p"
    assert owner_name(Field({"metadata": {"name": "p", "namespace": ""}})) == "default/p"
    for metadata in (None, {}, {"name": ""}, {"name": "a/b"}, {"name": "p", "namespace": "a/b"}):
        with pytest.raises(ValueError, match=r"^metadata\.name"):
            owner_name(Field({"metadata": metadata}))


def test_paths_quote_keys_that_are_no_plain_names():
    field = Field({"spec": {"devices": [{"resources": {"a.b/c": "x"}}]}})
    (entry,) = field["spec"]["devices"].entries()
    with pytest.raises(ValueError, match=r"^spec\.devices\[0\]\.resources\['a\.b/c'\]: 'x' is no"):
        entry["resources"]["a.b/c"].quantity(0, 1)


def test_json_that_is_too_deep_or_has_a_key_twice_is_a_mistake_of_its_field():
    twice = '[{"gpu": 1, "x": 2, "gpu": 3}]'
    for text, says in (("[" * 100_000, ""), (twice, ": an object has the key 'gpu' twice")):
        with pytest.raises(ValueError, match=f"^a: is no JSON{says}"):
            Field(text, "a").json()


@pytest.mark.parametrize(
    "text",
    ['{"kind": "Pod",\r\n\t"metadata": {"name": "p"}}', "kind: Pod\r\nmetadata: {name: p}\r\n"],
)
def test_a_byte_order_mark_and_windows_line_ends_are_accepted(text):
    (read,) = objects_of("\ufeff" + text, "pods")
    assert read.value == {"kind": "Pod", "metadata": {"name": "p"}}
