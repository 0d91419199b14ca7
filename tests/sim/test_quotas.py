"""How quotas stand: rows, amounts for people, the table, the picture."""

import re

import pytest

from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.sim.console import print_report
from hivecore.sim.pictures import save_figure
from hivecore.sim.quotas import QuotaRow, quota_report, quota_rows
from hivecore.sim.quotas.amounts import axis_unit, shown

GI = 1 << 30


def tree():
    tree = QuotaTree(
        [
            Quota("lab", max={"cpu": 8000, "gpu": 12}, min={"gpu": 6}),
            Quota("vision", parent="lab", max={"gpu": 9}, min={"gpu": 2}),
            Quota("art", parent="lab", max={"cpu": 8000, "gpu": 4}),
            Quota("zoo", max={"gpu": 5}, min={"gpu": 5}, lends=False),
            Quota("system", max={"gpu": 3}, outside=True),
            Quota("batch", max={"gpu": 4}, tree="pool"),
        ],
        total={"cpu": 6000, "gpu": 12},
    )
    tree.set_total({"gpu": 2}, tree="pool", carved=True)
    tree.recover(QuotaRequest("train", "vision", {"gpu": 2}, count=5), 4)
    tree.recover(QuotaRequest("watch", "system", {"gpu": 1}), 1)
    tree.submit(QuotaRequest("paint", "art", {"gpu": 1, "cpu": 500}, count=2))
    return tree


def test_rows_are_trees_and_their_quotas_from_the_top_down():
    rows = quota_rows(tree())
    assert [(row.name, row.depth) for row in rows] == [
        ("total", 0),
        ("system", 1),
        ("lab", 1),
        ("art", 2),
        ("vision", 2),
        ("zoo", 1),
        ("total of pool", 0),
        ("batch", 1),
    ]
    assert quota_rows(QuotaTree()) == []


def test_a_row_is_what_the_tree_says_of_the_quota():
    product = tree()
    for row in quota_rows(product):
        if row.depth:
            status = product.status(row.name)
            assert (row.request, row.min) == (status.request, status.min)
            assert (row.runtime, row.used) == (status.runtime, status.used)
            assert row.max == dict(product.quota(row.name).max)


def test_the_row_of_a_tree_is_what_there_is_and_the_sums_of_its_top():
    rows = {row.name: row for row in quota_rows(tree())}
    # 12 GPUs, 2 of them in the pool and 1 of the system; zoo keeps 5, lab may use the other 4.
    assert rows["total"] == QuotaRow(
        "total",
        0,
        request={"cpu": 1000, "gpu": 11 + 5},
        min={"cpu": 0, "gpu": 9},
        runtime={"cpu": 1000, "gpu": 9},
        used={"cpu": 0, "gpu": 8},
        max={"cpu": 6000, "gpu": 9},
    )
    assert rows["total of pool"].max == {"gpu": 2}
    assert rows["system"].used == {"gpu": 1}


def test_over_is_what_is_used_beyond_the_runtime():
    rows = {row.name: row.over() for row in quota_rows(tree())}
    assert rows["lab"] == {"gpu": 8 - tree().runtime("lab")["gpu"]}
    assert rows["zoo"] == rows["system"] == rows["total"] == {}


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 1, "<0.1"),
        ("cpu", 500, "0.5"),
        ("cpu", 1_234_567_000, "1,234,567"),
        ("gpu", 1234567, "1,234,567"),
        ("memory", 0, "0"),
        ("memory", 1023, "1,023"),
        ("memory", 1024, "1Ki"),
        ("memory", 3 * GI // 2, "1.5Gi"),
        ("ephemeral-storage", 5 << 40, "5Ti"),
        ("kubernetes.io/batch-memory", GI, "1Gi"),
        ("kubernetes.io/batch-cpu", 1500, "1,500"),
        ("hugepages-2Mi", GI, "1Gi"),
        ("example.com/memory-cards", 2048, "2Ki"),
        ("memory", 2**59, "512Pi"),
        ("memory", 2**60, "no limit"),
        ("cpu", 1844674407370955161, "no limit"),
    ],
)
def test_amounts_are_as_people_write_them(resource, amount, text):
    assert shown(resource, amount) == text


def test_an_axis_has_the_unit_of_its_largest_amount():
    assert axis_unit("cpu", 10) == ("cpu (cores)", 1000)
    assert axis_unit("gpu", 10**9) == ("gpu", 1)
    assert axis_unit("memory", 5 << 20) == ("memory (MiB)", 1 << 20)
    assert axis_unit("memory", 100) == ("memory (B)", 1)


def test_the_table_has_a_row_per_quota_and_resource_and_marks_what_is_beyond():
    rows = [
        QuotaRow("[red]lab", 1, {"gpu": 9, "cpu": 1}, {}, {"gpu": 2}, {"gpu": 5}, {"gpu": 8}),
        QuotaRow("a", 2, {}, {"cpu": 500}, {"cpu": 1}, {}, {"gpu": 2**62, "cpu": 1500}),
    ]
    assert quota_report(rows).cells() == [
        ["  [red]lab", "gpu", "9", "0", "2", "! 5", "8"],
        ["    a", "cpu", "0", "0.5", "<0.1", "0", "1.5"],
        ["", "gpu", "0", "0", "0", "0", "no limit"],
    ]


def test_no_name_is_cut_off_however_long_and_deep(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    names = [f"{depth}-{'x' * 50}" for depth in range(1, 6)]
    rows = [QuotaRow(name, i + 1, {}, {}, {}, {}, {"gpu": 1}) for i, name in enumerate(names)]
    print_report(quota_report(rows))
    out = capsys.readouterr().out
    for depth, name in enumerate(names, 1):
        assert f"\n{'  ' * depth}{name} " in out


def save(rows, path):
    return save_figure(quota_report(rows).pictures["quotas"](), path)


def test_a_title_names_quotas_only_if_they_have_room(tmp_path):
    def title(name):
        row = QuotaRow(name, 1, {}, {}, {}, {"gpu": 1}, {"gpu": 1})
        text = save([row], tmp_path / "q.svg").read_text("utf-8")
        return re.search(r">(\d of \d quotas [^<]*)</text>", text)[1]

    fact = "1 of 1 quotas uses more than may be used now"
    assert title("a") == f"{fact}: a"
    assert title("a" * 63) == fact


def test_the_picture_names_quotas_resources_and_amounts(tmp_path):
    path = save(quota_rows(tree()), tmp_path / "q.svg")
    text = path.read_text("utf-8")
    said = [part.strip() for part in re.findall(r">([^<>]+)</text>", text)]
    for expected in ("total", "lab", "vision", "total of pool", "cpu (cores)", "gpu", "min", "max"):
        assert expected in said
    assert "8 / 4" in said
    title = next(part for part in said if "quotas" in part)
    assert title == "2 of 6 quotas use more than may be used now: lab, vision"
    again = save(quota_rows(tree()), tmp_path / "again.svg")
    assert again.read_bytes() == path.read_bytes()
    png = save(quota_rows(tree()), tmp_path / "q.PNG")
    assert png.read_bytes().startswith(b"\x89PNG")


def bars(row, others=()):
    """(left, width, colour) of the bars in the one panel of a picture of this row."""
    axes = quota_report([row, *others]).pictures["quotas"]().axes[0]
    results = []
    for patch in axes.patches:
        if patch.get_y() < 0.5:
            color = patch.get_facecolor() if patch.get_fill() else None
            results.append((patch.get_x(), patch.get_width(), color))
    return results, axes


def test_a_bar_is_the_runtime_what_is_used_of_it_what_is_beyond_and_the_frame():
    row = QuotaRow("a", 1, {"gpu": 9}, {"gpu": 3}, {"gpu": 4}, {"gpu": 6}, {"gpu": 8})
    result, axes = bars(row)
    expected = [(0, 4), (0, 4), (4, 2), (0, pytest.approx(7.2))]
    assert [(left, width) for left, width, _ in result] == expected
    assert result[3][2] is None
    assert len({color for _, _, color in result[:3]}) == 3
    (tick,) = axes.collections
    assert [point[0] for point in tick.get_segments()[0]] == [3, 3]
    (marker,) = axes.lines
    assert marker.get_marker() == ">"  # what is asked for is beyond the axis, which ends at 6
    assert 6 < axes.get_xlim()[1] < 6.5


def test_the_axis_ends_where_there_is_something_and_not_at_a_maximum_without_end():
    total = QuotaRow("total", 0, {}, {}, {}, {}, {"gpu": 50})
    row = QuotaRow("a", 1, {"gpu": 20}, {}, {"gpu": 20}, {"gpu": 10}, {"gpu": 2**62})
    _, axes = bars(row, others=[total])
    assert axes.get_xlim() == (0, 52)
    (marker,) = axes.lines
    assert (marker.get_marker(), list(marker.get_xdata())) == ("D", [20])
    unlimited = QuotaRow("a", 1, {}, {}, {"gpu": 2**62}, {"gpu": 1}, {"gpu": 2**62})
    _, axes = bars(unlimited)
    assert axes.get_xlim()[1] == pytest.approx(1.04)


def test_names_with_dollar_signs_are_no_formulas(tmp_path):
    row = QuotaRow(r"a$\frac$b", 1, {}, {}, {"$x$": 1}, {"$x$": 2}, {"$x$": 3})
    text = save([row], tmp_path / "q.svg").read_text("utf-8")
    assert text.count(r"a$\frac$b") >= 2


def test_what_cannot_be_drawn_is_refused(tmp_path):
    row = QuotaRow("a", 1, {}, {}, {}, {}, {"gpu": 1})
    with pytest.raises(ValueError, match="rows must hold a quota with a max"):
        save([], tmp_path / "q.svg")
    with pytest.raises(OSError, match="missing"):
        save([row], tmp_path / "missing" / "q.svg")
