"""Expressions of device selectors: what they mean, what they refuse, what they may cost.

Values are tested by expressions that are true. Random expressions are compared with an evaluator
that walks over nested tuples and knows errors as values.
"""

import inspect
import re
import sys
from fractions import Fraction

import pytest
from dra.worlds import World, claim, device, device_class, published_slice, request, terms
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore._quantities import read_exactly
from hivecore.dra import (
    Attribute,
    Capacity,
    Device,
    DeviceId,
    PoolDevice,
    cel,
    compile_selector,
    matches,
)
from hivecore.dra._cel.pattern import Pattern
from hivecore.errors import CelRuntimeError, CelSyntaxError

DRIVER = "gpu.x"
GPU = {
    "type": Attribute(string="gpu"),
    "count": Attribute(int_=8),
    "whole": Attribute(bool_=True),
    "driverVersion": Attribute(version="1.10.0"),
    "early": Attribute(version="2.0.0-rc.1"),
    "ext.io/family": Attribute(string="hopper"),
    "roots": Attribute(strings=("a", "b")),
    "versions": Attribute(versions=("1.0.0", "2.0.0")),
    "twice": Attribute(string="short"),
    f"{DRIVER}/twice": Attribute(string="full"),
}


def pool_device(attributes, capacity=None, driver=DRIVER, **fields):
    capacity = {name: Capacity(Fraction(of)) for name, of in (capacity or {}).items()}
    own = Device("d0", attributes, capacity, **fields)
    return PoolDevice(DeviceId(driver, "p", "d0"), own)


DEVICE = pool_device(GPU, {"memory": 80 << 30, "ext.io/slices": 7})


def written(expression):
    """With A and C for the attributes and the capacity of the driver."""
    expression = re.sub(r"\bA\b", f'device.attributes["{DRIVER}"]', expression)
    return re.sub(r"\bC\b", f'device.capacity["{DRIVER}"]', expression)


def lines(text):
    return [line.strip() for line in text.strip().splitlines()]


def outcome(expression, of=DEVICE):
    """True, False, "compile" or "run"."""
    try:
        return matches(expression, of)
    except CelSyntaxError:
        return "compile"
    except CelRuntimeError:
        return "run"


OF_THE_DEVICE = r"""
    device.driver == "gpu.x"
    !device.allowMultipleAllocations
    device.attributes["gpu.x"].type == "gpu" && device.attributes["gpu.x"]["type"] == "gpu"
    device.attributes["ext.io"].family == "hopper"
    A.whole
    A.count == 8 && A.count != "8" && A.count > 7 && A.count <= 8.0
    A.type in ["gpu", "mig"] && !(A.type in ["mig"]) && !(A.count in ["8"])
    A.twice == "full"
    "type" in A && !("family" in A) && "family" in device.attributes["ext.io"]
    "ext.io" in device.attributes && !("no.io" in device.attributes)
    has(A.type) && !has(A.family) && !has(device.attributes["no.io"].type)
    device.attributes["no.io"] == {} && device.attributes["no.io"].size() == 0
    A.?type.orValue("") == "gpu" && A.?no.orValue("none") == "none" && !A[?"no"].hasValue()
    device.attributes["no.io"].?type.orValue("none") == "none"
    device.attributes[?"gpu.x"].?type.orValue("") == "gpu" && device.attributes[?"no"].hasValue()
    device.attributes[?"gpu.x"].orValue(device.attributes["no.io"]).count == 8
    A.driverVersion.compareTo(semver("1.9.0")) == 1 && A.driverVersion == semver("1.10.0+build")
    A.early.isLessThan(semver("2.0.0")) && A.early.isGreaterThan(semver("1.99.9"))
    A.driverVersion.major() == 1 && A.driverVersion.minor() == 10 && A.early.patch() == 0
    C.memory == quantity("80Gi") && C.memory.compareTo(quantity("81920Mi")) == 0
    C.memory.isGreaterThan(quantity("40G")) && C.memory.isLessThan(quantity("1Ti"))
    device.capacity["ext.io"].slices.asInteger() == 7 && !has(C.slices)
    A.roots.includes("a") && !A.roots.includes("c") && A.type.includes("gpu")
    A.roots.exists(r, r == "b") && A.roots.size() == 2 && "a" in A.roots
    A.versions.all(v, v.isLessThan(semver("3.0.0"))) && A.versions.includes(semver("1.0.0"))
    cel.bind(a, A, a.type == "gpu" && a.count == 8)
    cel.bind(d, device, d.driver == "gpu.x")
    A.exists(name, name == "type") && device.attributes.all(d, d.endsWith("x") || d == "ext.io")
    dyn(A)["type"] == "gpu" && A["ty" + "pe"] == "gpu"
"""

OF_VALUES = r"""
    1 + 2 * 3 - 4 == 3 && (1 + 2) * 3 == 9 && -7 / 2 == -3 && -7 % 3 == -1 && 7 % -3 == 1
    -9223372036854775808 < 9223372036854775807 && 0x1F == 31 && 0x1Fu == 31u && --1 == 1
    18446744073709551615u > 1u && 2u + 3u == 5u && 1u < 2 && 1 < 1.5 && 2.5 >= 2u
    1.5 * 2.0 == 3.0 && 1.0 / 0.0 > 1e300 && .5 == 0.5 && 1e3 == 1000.0 && -1.5 < 0.0
    dyn(1) == 1.0 && dyn(1u) == 1 && dyn(1) != "1" && dyn(1) != true && dyn(null) != 0
    0.0 == -0.0 && !(0.0 / 0.0 == 0.0 / 0.0) && false < true && "Z" < "a" && "ab" < "abc"
    "a" + "b" == 'ab' && r"\n" == "\\n" && "\x41\u0042\103" == "ABC" && 'a"b' == "a\"b"
    '''a'b''' == "a'b" && "tab\t" != "tab\\t" && r'''\''' == "\\" // comment
    [1, 2] + [3] == [1, 2, 3] && [1, 2][1] == 2 && [1, 2][dyn(1.0)] == 2 && [dyn(1)] == [1.0]
    {"a": 1}.a == 1 && {"a": 1}["a"] == 1 && {1: "x"}[dyn(1u)] == "x" && {"a": [1]} == {"a": [1]}
    2 in [1, 2] && "a" in {"a": 1} && !(3 in [1, 2]) && dyn(1.0) in [1] && !(dyn(true) in [1])
    true ? true : false && false
    false ? false : true ? true : false
    true || 1 / 0 == 1
    1 / 0 == 1 || true
    !(1 / 0 == 1 && false)
    !(dyn(1) && false) && (dyn("a") || true)
    !(1 < 2 == false) && !!true
    size("héllo") == 5 && "abc".size() == 3 && size([1]) == 1 && {"a": 1}.size() == 1
    "abc".startsWith("ab") && "abc".endsWith("bc") && "abc".contains("b") && "abc".charAt(1) == "b"
    "a,b,c".split(",") == ["a", "b", "c"] && "a,b,c".split(",", 2) == ["a", "b,c"]
    "abc".split("") == ["a", "b", "c"] && "abc".split("", 2) == ["a", "bc"] && "".split(",") == [""]
    "a".split(",", 0) == [] && ["a", "b"].join("-") == "a-b" && ["a", "b"].join() == "ab"
    "AbCÉ".lowerAscii() == "abcÉ" && "abcé".upperAscii() == "ABCé" && " a\t".trim() == "a"
    "banana".replace("a", "o", 2) == "bonona" && "banana".replace("a", "o") == "bonono"
    "abc".substring(1) == "bc" && "abc".substring(1, 2) == "b" && "abc".substring(3) == ""
    "abcabc".indexOf("c") == 2 && "abcabc".indexOf("c", 3) == 5 && "a".indexOf("b") == -1
    "abcabc".lastIndexOf("c") == 5 && "abcabc".lastIndexOf("c", 3) == 2
    [1, 2, 3].exists(x, x > 2) && ![1, 2, 3].all(x, x > 2) && [1, 2, 3].exists_one(x, x > 2)
    [1, 2, 3].filter(x, x > 1) == [2, 3] && [1, 2].map(x, x * 2) == [2, 4]
    [1, 2, 3].map(x, x > 1, x * x) == [4, 9] && {"a": 1}.map(k, k) == ["a"] && [].all(x, x > 1)
    [0, 1].exists(x, 1 / x == 1) && ![0, 1].all(x, 1 / x == 2)
    [1, 2].map(x, [3, 4].map(x, x)) == [[3, 4], [3, 4]] && [1].map(x, [x].map(y, x + y)) == [[2]]
    cel.bind(x, 3, cel.bind(y, x + 1, x * y)) == 12 && cel.bind(x, 1 / 0, x == 1 || true)
    optional.of(1).hasValue() && !optional.none().hasValue() && optional.none().orValue(1) == 1
    optional.of(1).value() == 1 && optional.none().or(optional.of(2)).value() == 2
    {"a": {"b": 1}}.?a.b.orValue(0) == 1 && !{"a": {"b": 1}}.?c.b.hasValue()
    [1, 2][?1].orValue(0) == 2 && [1, 2][?2].orValue(0) == 0 && optional.none() == optional.none()
    int("12") + int(1.9) + int(3u) == 16 && uint(5) == 5u && double("1.5") == 1.5
    string(5) + string(true) == "5true" && bool(true) && double(3) == 3.0
    bool("true") && bool("T") && bool("1") && !bool("False") && !bool("f") && !bool("0")
    quantity("1024Mi") == quantity("1Gi") && quantity("1.5").compareTo(quantity("1500m")) == 0
    quantity("1k").add(quantity("24")).sub(24).asInteger() == 1000 && quantity("-1").sign() == -1
    quantity("1.5").asApproximateFloat() == 1.5 && !quantity("1.5").isInteger()
    ["1", "1e3", "1.5k", "1.500k", "80Gi", "10Ti", "1."].all(q, quantity(q).isInteger())
    ["1E", "-2", "0", "000", "9E"].all(q, quantity(q).isInteger())
    !["1.0", "1000m", "1.5000k", "0.0", "10E", "1Pi"].exists(q, quantity(q).isInteger())
    !["100Ti", "0.5Gi", "1000000000000000000", "1e-10"].exists(q, quantity(q).isInteger())
    ["1.0", "0.5", "1Pi"].all(q, !quantity(q).add(quantity(q)).isInteger())
    quantity("10E").sub(quantity("9E")).isInteger() && quantity("0").add(1).isInteger()
    quantity("1.0").sub(quantity("1")) == quantity("0") && !quantity("1.0").sub(1).isInteger()
    !quantity("1E").add(quantity("1n")).isInteger() && quantity("1Pi") == quantity("1024Ti")
    quantity("0.0").add(1).isInteger() && quantity("1").add(quantity("0.0")).isInteger()
    C.memory.isInteger() && C.memory.add(1).isInteger() && C.memory.sub(quantity("1k")).isInteger()
    !C.memory.add(quantity("1.0")).isInteger() && dyn(C.memory) == quantity("80Gi")
    isQuantity("80Gi") && !isQuantity("80GB") && dyn(quantity("1")) != 1 && quantity("1") != null
    semver("1.2.3-rc.1").isLessThan(semver("1.2.3")) && semver("1.9.0").isLessThan(semver("1.10.0"))
    semver("v1.02", true) == semver("1.2.0") && semver("1.2.03-rc", true) == semver("1.2.3-rc")
    !isSemver("1-rc", true) && !isSemver("1.2-rc", true) && !isSemver("1+b", true)
    semver("1.2.00-rc", true) == semver("1.2.0-rc") && !isSemver(" 1.2.3", true)
    isSemver("1.2.3-18446744073709551615") && !isSemver("1.2.3-18446744073709551616")
    isSemver("1.2.3-01a") && !isSemver("1.2.3-01") && !isSemver("1.2.3-01", true)
    isSemver("1.2.3") && !isSemver("v1.2.3") && isSemver("v1", true) && !isSemver("a", true)
    "\x1ca\x1c".trim() == "\x1ca\x1c" && " \v\u0085\u00a0\u1680\u2003\u2028\u3000a".trim() == "a"
    uint("05") == 5u && int("+5") == 5 && double("1e308") > 1e307 && double("1e-400") == 0.0
    "abc".matches("^a.c$") && matches("abc", "b") && !"abc\n".matches("c$")
"""


@pytest.mark.parametrize("expression", lines(OF_THE_DEVICE) + lines(OF_VALUES))
def test_the_expression_is_true(expression):
    assert compile_selector(written(expression)).matches(DEVICE)


REFUSED = r"""
    device.model :: undefined field 'model'
    model == 1 :: undeclared reference to 'model' (character 1)
    device :: a bool is needed, not device
    device.driver :: a bool is needed, not string
    C.memory :: a bool is needed, not quantity
    device.driver == 1 :: no such overload: == of (string, int)
    1 == 1.0 :: no such overload: == of (int, double)
    C.memory > quantity("1") :: no such overload: > of (quantity, quantity)
    1 < "a" :: no such overload: < of (int, string)
    "a" + 1 == "a1" :: no such overload: + of (string, int)
    1 && true :: a bool is needed, not int
    !1 :: no such overload: ! of (int)
    true ? 1 : "a" :: no such overload: ?: of (int, string)
    1 in ["a"] :: no such overload: in of (int, list(string))
    1 in A :: no such overload: in of (int, map(string, dyn))
    [1, "a"] == [] :: no such overload: list of (int, string)
    {"a": 1}[1] == 1 :: no member by a key of int
    device.driver.name == "a" :: type string has no field
    "a".startsWith(1) :: no such overload: startsWith of (string, int)
    "a".startsWith("a", "b") :: no such overload
    "a".begins("b") :: the function 'begins' is unknown, or not supported here
    url("a") == url("b") :: the function 'url' is unknown, or not supported here
    sets.contains([1], [1]) :: 'sets.contains' is unknown, or not supported here
    [1].join() == "" :: no such overload: join of (list(int))
    [1].all(x, x) :: a bool is needed, not int
    [1].all(x + 1, true) :: a variable must be a simple name
    [1].all(i, v, true) :: all() with 3 parts is not supported
    "abc".all(c, true) :: no such overload: all of (string)
    has(device) :: has() takes a selected field
    optional.of(1).orValue("a") == 1 :: no such overload: orValue
    "a".matches("(b") :: ')' is missing
    b"a" == b"a" :: bytes are not supported
    {true: 1} == {true: 1} :: keys of type bool are not supported
    [?optional.of(1)] == [] :: optional elements are not supported
    google.Any{} == 1 :: messages are not supported
    9223372036854775808 == 1 :: exceeds 64 bits (character 1)
    -1u == 1u :: exceeds 64 bits
    1e400 > 1.0 :: exceeds 64 bits
    true && :: the end instead of a name (character 8)
    (true :: the end instead of ')'
    true true :: 'true' instead of the end (character 6)
    [1,, 2] == [] :: ',' instead of a name
    true ? true :: the end instead of ':'
    "a :: unexpected '"'
    "\ud800" == "" :: no escape: '\\u'
    "\q" == "" :: no escape: '\\q'
    {"in": true}.in :: 'in' instead of a name
    if :: 'if' instead of a name
    a = b :: unexpected '='
"""


@pytest.mark.parametrize("line", lines(REFUSED))
def test_the_expression_is_refused_with_a_message(line):
    expression, _, message = line.partition(" :: ")
    for _ in range(2):  # the error is kept as selectors are
        with pytest.raises(CelSyntaxError, match=re.escape(message)) as raised:
            compile_selector(written(expression))
        assert isinstance(raised.value, SyntaxError)


FAILING = r"""
    A.model == "a" :: no such key: model
    device.attributes["no.io"].type == "gpu" :: no such key: type
    C.cores.sign() == 1 :: no such key: cores
    A["mo" + "del"] == "a" :: no such key: model
    A.type :: the result is of type string instead of bool
    A.count > "a" :: no such overload: > of (int, string)
    A.count + 1.0 == 9.0 :: no such overload: + of (int, double)
    A.type.name == "a" :: no such overload: [] of (string, string)
    A.type && true :: no such overload: && of (string)
    A.count ? true : false :: no such overload: ?: of (int)
    A.count.startsWith("8") :: no such overload: startsWith of (int, string)
    A.driverVersion.compareTo(A.type) == 0 :: no such overload
    A.model == "a" || false :: no such key: model
    A.model == "a" && A.count == 8 :: no such key: model
    A.roots.exists_one(r, 1 / 0 == 1) :: division by zero
    A.roots.all(r, A.count) :: no such overload: a predicate of (int)
    9223372036854775807 + 1 == 0 :: integer overflow
    -(-9223372036854775808) == 0 :: integer overflow
    9223372036854775807 * 2 == 0 :: integer overflow
    -9223372036854775808 / -1 == 0 :: integer overflow
    -9223372036854775808 % -1 == 0 :: integer overflow
    1u - 2u == 0u :: unsigned integer overflow
    int(1e30) == 0 :: integer overflow
    uint(-1) == 0u :: unsigned integer overflow
    1 % 0 == 0 :: modulus by zero
    int("1x") == 1 :: '1x' is no integer
    uint("+5") == 5u :: '+5' is no integer
    uint("-0") == 0u :: '-0' is no integer
    double("1e400") > 1.0 :: '1e400' is no double
    double("x") == 1.0 :: 'x' is no double
    bool("yes") :: 'yes' is no bool
    [1][1] == 1 :: no such key: 1
    {"a": 1, "a": 2} == {} :: the key 'a' is repeated
    {A.whole: 1} == {} :: no such overload: {} of (bool)
    "abc".substring(2, 1) == "" :: invalid substring range
    "abc".charAt(4) == "" :: index out of range: 4
    quantity("80GB").sign() == 1 :: is no quantity
    quantity("0.5").asInteger() == 0 :: the quantity is no integer
    quantity("1.0").asInteger() == 1 :: the quantity is no integer
    quantity("10E").add(quantity("10E")).asInteger() == 0 :: no integer of 64 bits
    semver("v1.2.3").major() == 1 :: is no semantic version
    optional.none().value() :: the optional value is none
    cel.bind(x, 1 / 0, x == 1) :: division by zero
    "a".matches(A.type + "(") :: ')' is missing
    dyn([1]).join("") == "1" :: join
"""


@pytest.mark.parametrize("line", lines(FAILING))
def test_the_expression_fails_on_the_device_with_a_message(line):
    expression, _, message = line.partition(" :: ")
    with pytest.raises(CelRuntimeError, match=re.escape(message)):
        compile_selector(written(expression)).matches(DEVICE)


def test_a_short_name_is_of_the_domain_of_the_driver():
    nic = pool_device({"type": Attribute(string="nic")}, {"rate": 1}, "nic.x")
    assert matches('device.attributes["nic.x"].type == "nic"', nic)
    assert matches('device.capacity["nic.x"].rate == quantity("1")', nic)
    assert not matches('has(device.attributes["gpu.x"].type)', nic)
    assert matches('device.attributes == {"nic.x": {"type": dyn("nic")}}', nic)


def test_a_long_version_is_one_though_no_attribute_is_as_long():
    long = f"1.2.3-{'a.1' * 100}"
    assert matches(f'semver("{long}").isLessThan(semver("1.2.3"))', DEVICE)
    assert not matches(f'isSemver("{long}.01")', DEVICE)
    assert not matches(f'isSemver("1.2.3-{"9" * 5000}")', DEVICE)


@pytest.mark.parametrize("size", ["100Ti", "1Pi", "1000P"])
def test_a_capacity_is_no_integer_and_none_either_if_that_depends_on_how_it_is_written(size):
    """What is published in bytes is an integer, what is published in Ti is none."""
    large = pool_device({}, {"memory": int(read_exactly(size, "size"))})
    for of in (".isInteger()", ".asInteger() > 0"):
        with pytest.raises(CelRuntimeError, match="depends on how it is written"):
            matches(written(f"C.memory{of}"), large)


def test_sharing_and_attributes_of_unknown_types_are_seen():
    shared = pool_device({"new": Attribute()}, {}, allow_multiple_allocations=True)
    assert matches("device.allowMultipleAllocations", shared)
    assert outcome(written("A.new == 1"), shared) == "run"


# --- what an expression looks at


@pytest.mark.parametrize(
    ("expression", "attributes", "capacities"),
    [
        ('device.driver == "a"', "", ""),
        ("A.type == 'a' && device.attributes['ext.io']['f'] == 1", "gpu.x/type ext.io/f", ""),
        ("has(A.a) || 'b' in A || A.?c.hasValue() || A[?'d'].hasValue()", "abcd", ""),
        ("device.attributes[?'gpu.x'].?a.orValue(1) == 1", "a", ""),
        ("cel.bind(a, A, a.b == 1 && a.c == 2)", "bc", ""),
        ("A.a == 1 && C.m.sign() == 1", "a", "m"),
        ("A[device.driver] == 1", None, ""),
        ("A.size() == 1 && C.m.sign() == 1", None, "m"),
        ("'ext.io' in device.attributes", None, ""),
        ("device.capacity.all(d, true) && A.a == 1", "a", None),
        ("dyn(C).m == 1", "", None),
        ("(true ? A : A).b == 1", None, ""),
    ],
)
def test_a_selector_names_what_it_looks_at(expression, attributes, capacities):
    selector = compile_selector(written(expression))
    for result, names in ((selector.attributes, attributes), (selector.capacities, capacities)):
        if names is not None and "/" not in names:
            names = " ".join(f"{DRIVER}/{name}" for name in names)
        assert result == (names and {tuple(name.split("/")) for name in names.split()}) or (
            names == "" and result == frozenset()
        )


# --- random expressions, against an evaluator of tuples

NAMES = "abc"
VALUES = st.sampled_from([0, 1, 2, True, False, "", "x"])
LEAVES = (
    st.tuples(st.just("value"), VALUES)
    | st.tuples(st.just("attribute"), st.sampled_from(NAMES))
    | st.tuples(st.just("has"), st.sampled_from(NAMES))
    | st.just(("variable",))
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.tuples(st.sampled_from(["==", "!=", "<", "+", "/", "&&", "||"]), inner, inner)
        | st.tuples(st.just("!"), inner)
        | st.tuples(st.just("?"), inner, inner, inner)
        | st.tuples(
            st.sampled_from(["exists", "all", "exists_one"]), st.lists(VALUES, max_size=3), inner
        )
    ),
    max_leaves=10,
)
DEVICES = st.dictionaries(st.sampled_from(NAMES), VALUES)
ERROR = "an error"


def text_of(tree):
    """The expression; every operand is dyn, so that types are judged only when it runs."""
    kind, *parts = tree
    if kind == "value":
        return f"dyn({str(parts[0]).lower() if isinstance(parts[0], bool) else repr(parts[0])})"
    if kind == "attribute":
        return f"A.{parts[0]}"
    if kind == "has":
        return f"dyn(has(A.{parts[0]}))"
    if kind == "variable":
        return "dyn(v)"
    if kind in ("exists", "all", "exists_one"):
        values = ", ".join(text_of(("value", each)) for each in parts[0])
        return f"dyn([{values}].{kind}(v, {text_of(parts[1])}))"
    texts = [text_of(part) for part in parts]
    if kind == "!":
        return f"dyn(!{texts[0]})"
    return (
        f"dyn({texts[0]} ? {texts[1]} : {texts[2]})"
        if kind == "?"
        else (f"dyn({texts[0]} {kind} {texts[1]})")
    )


def decided(answers, decisive):
    """The answer of || (by true) or && (by false) from all answers, of which some are errors."""
    if decisive in [each for each in answers if isinstance(each, bool)]:
        return decisive
    return not decisive if all(isinstance(each, bool) for each in answers) else ERROR


def answer(tree, of, v):
    kind, *parts = tree
    if kind == "value":
        return parts[0]
    if kind == "attribute":
        return of.get(parts[0], ERROR)
    if kind == "has":
        return parts[0] in of
    if kind == "variable":
        return v
    if kind in ("exists", "all", "exists_one"):
        answers = [answer(parts[1], of, each) for each in parts[0]]
        if kind == "exists_one":
            is_whole = all(isinstance(each, bool) for each in answers)
            return answers.count(True) == 1 if is_whole else ERROR
        return decided(answers, kind == "exists")
    first, *others = [answer(part, of, v) for part in parts]
    if kind in ("&&", "||"):
        return decided([first, *others], kind == "||")
    if kind == "?":
        return others[not first] if isinstance(first, bool) else ERROR
    if kind == "!":
        return not first if isinstance(first, bool) else ERROR
    if ERROR in (first, *others):
        return ERROR
    (second,) = others
    is_alike = type(first) is type(second)
    if kind in ("==", "!="):
        return (is_alike and first == second) == (kind == "==")
    if not is_alike or (kind != "<" and isinstance(first, bool)):
        return ERROR
    if kind == "<":
        return first < second
    if kind == "+":
        return first + second
    return first // second if type(first) is int and second else ERROR


def selected(tree):
    return compile_selector(written(f"cel.bind(v, dyn(1), {text_of(tree)})"))


def answer_of(selector, values):
    kinds = {bool: "bool_", int: "int_", str: "string"}
    attributes = {name: Attribute(**{kinds[type(of)]: of}) for name, of in values.items()}
    try:
        return selector.matches(pool_device(attributes))
    except CelRuntimeError:
        return ERROR


@examples(400)
@given(TREES, DEVICES)
def test_random_expressions_mean_what_a_walk_over_their_trees_says(tree, values):
    expected = answer(tree, values, 1)
    assert answer_of(selected(tree), values) is (expected if isinstance(expected, bool) else ERROR)


@examples(300)
@given(TREES, DEVICES, DEVICES)
def test_an_attribute_that_is_not_looked_at_changes_nothing(tree, values, others):
    selector = selected(tree)
    seen = {name for _, name in selector.attributes}
    changed = {name: of for name, of in others.items() if name not in seen}
    kept = {name: of for name, of in values.items() if name in seen}
    assert answer_of(selector, values) is answer_of(selector, kept | changed)


# --- regular expressions


@pytest.mark.parametrize(
    ("pattern", "hits", "misses"),
    [
        ("^H[12]00$", ["H100", "H200"], ["H300", "H1000", "H100\n"]),
        ("(?i)nvidia|amd", ["NVIDIA A100", "AMD"], ["intel"]),
        ("^a{2,3}$", ["aa", "aaa"], ["a", "aaaa"]),
        (r"\d+\.\d+", ["1.2"], ["12", "a.b"]),
        (r"\bgpu\b", ["a gpu"], ["gpus"]),
        (r"^\s$", [*"\t\n\f\r "], [*"\v\x1c\x85"]),
        (r"^\S$", [*"\vs"], [*"\t\n\f\r "]),
        (r"^[^\s]$", ["\v"], [" "]),
        (r"^[\S\t]$", ["\v", "\t"], [" "]),
        (r"^[\\s]\s[\v]$", ["\\ \v", "s\t\v"], ["\v \v"]),
        ("^(?:a|b)*?c$", ["c", "abc"], ["abd"]),
        ("[^]a]", ["b"], ["]a"]),
        ("(?m)^b$", ["a\nb"], ["ab"]),
        ("a.b(?s:.)c", ["axb\nc"], ["a\nbxc"]),
        ("x{,2}", ["x{,2}"], ["xx"]),
        ("", ["", "a"], []),
    ],
)
def test_a_pattern_is_looked_for_as_re2_does(pattern, hits, misses):
    assert [text for text in hits + misses if Pattern(pattern).search(text)] == hits


BAD = r"""a\ (a a) [a *a a** a{2}{2} a{1001} a{3,2} (?=a) (?<!a)b (a)\1 (?>a) \pL [[:alpha:]] \Z
    [b-a] ((a{99}){99}){9}"""


@pytest.mark.parametrize("pattern", BAD.split())
def test_a_pattern_that_re2_lacks_or_that_is_not_supported_is_refused(pattern):
    with pytest.raises(ValueError, match=re.escape(f"pattern {pattern[:9]!r}"[:10])):
        Pattern(pattern)


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", "(?:ab)", "(?:a|)", "(?:^|a)"])
PARTS = st.tuples(ATOMS, st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}"]))


@examples(400)
@given(st.lists(st.lists(PARTS, max_size=3), min_size=1, max_size=3), st.text("ab-", max_size=6))
def test_random_patterns_find_what_those_of_python_find(branches, text):
    pattern = "|".join("".join(map("".join, branch)) for branch in branches)
    assert Pattern(pattern).search(text) == bool(re.search(pattern, text))


# --- limits

TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"


def nested(start, *wrappings):
    for wrapping in wrappings:
        start = wrapping.format(start)
    return start


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 5_000 + "true" + ")" * 5_000,
        "[" * 5_000,
        "-(" * 2_000 + "1" + ")" * 2_000,
        "1" + "+1" * 4_000 + " == 1",
        "device" + ".a" * 4_000,
        "device.driver == '" + "a" * 10_300 + "'",
        "true ? true : " * 700 + "true",
        nested("true", *["[true].all(x, {})"] * 100),
        "'a'.matches('((((a{10}){10}){10}){10}){10}')",
        "'a'.matches('" + "(" * 500 + "a" + ")" * 500 + "')",
    ],
    ids=range(10),
)
def test_an_expression_that_is_too_long_or_too_deep_is_refused(expression):
    with pytest.raises(CelSyntaxError, match=r"levels deep|10 KiB|2000 steps|too deeply"):
        compile_selector(expression)


@pytest.mark.parametrize(
    "expression",
    [
        nested("true", *[f"{TEN}.all(x, {{}})"] * 7),
        nested("x.size() > 0", *["cel.bind(x, x + x, {})"] * 40, "cel.bind(x, 'ab', {})"),
        nested("x.size() > 0", *["cel.bind(x, x + x, {})"] * 40, "cel.bind(x, [1], {})"),
        nested("x == x.map(y, y)", *["cel.bind(x, [x, x], {})"] * 40, "cel.bind(x, [1], {})"),
        nested("x.size() > 0", *["cel.bind(x, x.replace('', x), {})"] * 9, "cel.bind(x, 'ab', {})"),
        nested("'a'.matches('[ab]' + string(x))", *[f"!{TEN}.all(x, !{{}})"] * 5),
    ],
    ids=range(6),
)
def test_an_evaluation_that_explodes_ends_with_an_error(expression):
    with pytest.raises(CelRuntimeError, match=r"more than (1,000,000 steps|65,536 parts)"):
        compile_selector(expression).matches(DEVICE)


def test_the_steps_of_a_loop_are_its_rounds_times_its_nodes(monkeypatch):
    selector = compile_selector(f"{TEN}.all(x, {TEN}.all(y, x == y || true))")
    inner, outer = 1 + 5, 1 + 5 + 1 + 11 + 1
    steps = 10 * outer + 100 * inner
    monkeypatch.setattr(cel, "STEPS", steps)
    assert selector.matches(DEVICE)
    monkeypatch.setattr(cel, "STEPS", steps - 1)
    with pytest.raises(CelRuntimeError, match="steps"):
        selector.matches(DEVICE)


def test_long_chains_and_many_signs_are_no_depth():
    assert matches(" || ".join(["device.driver == 'a'"] * 400 + ["true"]), DEVICE)
    assert matches("!" * 5_000 + "true", DEVICE)


def test_an_error_of_a_stack_that_is_nearly_full_is_not_kept():
    text = nested("true", *["[true].all(x, {})"] * 30)

    def at_depth(frames):
        return at_depth(frames - 1) if frames else outcome(text)

    room = sys.getrecursionlimit() - len(inspect.stack(0))
    assert at_depth(room - 90) == "compile"
    assert at_depth(0) is True
    assert at_depth(room - 40) == "run"


def test_selectors_are_kept_and_equal_by_their_texts():
    text = 'device.driver == "kept"'
    assert compile_selector(text) is compile_selector(text)
    assert compile_selector(text) == cel.Selector(text) != compile_selector("true")
    assert hash(compile_selector(text)) == hash(cel.Selector(text))
    assert eval(repr(compile_selector(text)), vars(cel)) == compile_selector(text)


# --- in the allocator


def nvidia(*names, **attributes):
    driver = "gpu.nvidia.com"
    devices = [
        device(name, {"type": "mig" if "mig" in name else "gpu", **attributes}, {"memory": size})
        for name, size in names
    ]
    return published_slice("s", devices, driver=driver)


def test_the_allocator_gives_devices_of_classes_like_those_of_nvidia():
    is_type = 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == {}'
    classes = [
        device_class("gpu", [is_type.format('"gpu"')]),
        device_class("mig", [is_type.format('"mig"')]),
    ]
    devices = nvidia(("gpu-0", "40Gi"), ("gpu-1-mig-1g", "10Gi"), ("gpu-2", "80Gi"))
    world = World(devices, classes=classes, evaluator=matches)
    large = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0'
    wanted = [
        request("small", deviceClassName="mig"),
        request("large", where=large, deviceClassName="gpu"),
        request("any", 1, deviceClassName="gpu"),
    ]
    assert world.given(claim(*wanted)) == "small:gpu-1-mig-1g large:gpu-2 any:gpu-0"
    either = {"name": "r", "exactly": terms(where="device.attribute")}
    assert world.given(claim(either)) == "cel_compile"
    assert world.given(claim(request("r", where='device.attributes["x"].y'))) == "cel_runtime"


def test_an_expression_that_is_no_text_is_refused():
    for text in (None, 3, b"true"):
        with pytest.raises(TypeError, match=f"text must be a string, not {type(text).__name__}"):
            compile_selector(text)
