"""Tables to Parquet, charts to Vega-Lite, and what cannot be either."""

import io
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import altair as alt
import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from parsimony_kernel.artifacts.chart_words import describe_chart, title_of
from parsimony_kernel.artifacts.codecs import (
    CodecError,
    decode_dataset,
    encode_chart,
    encode_dataset,
    render_png,
    render_svg,
    table_head,
)


def _back(value: object, variable: str = "df") -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(encode_dataset(value, variable)))


def _columns(value: object, variable: str = "df") -> list[str]:
    return list(_back(value, variable).columns)


def test_frame_round_trips() -> None:
    frame = pd.DataFrame(
        {
            "n": [1, 2, 3],
            "x": [0.5, np.nan, 2.0],
            "s": ["a", None, "ü"],
            "t": pd.to_datetime(["2020-01-01", "2020-01-02", "NaT"]),
            "c": pd.Categorical(["x", "y", "x"]),
            "q": pd.period_range("2020Q1", periods=3, freq="Q"),
            "b": [True, False, True],
            "z": pd.to_datetime(["2020-01-01", "2020-06-01", None]).tz_localize("Europe/Berlin"),
            "u": pd.to_datetime(["2020-01-01", "2020-06-01", None], utc=True),
        }
    )
    pd.testing.assert_frame_equal(_back(frame), frame)
    pd.testing.assert_frame_equal(decode_dataset(encode_dataset(frame, "frame")), frame)


def test_row_numbers_are_dropped_and_index_kept() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3], "g": ["a", "b", "b"]})
    assert _columns(frame) == ["x", "g"]
    assert _columns(frame[frame.x > 1]) == ["x", "g"]
    assert _columns(frame.sort_values("x", ascending=False)) == ["x", "g"]
    assert _columns(frame.groupby("g")["x"].mean(), "mean") == ["g", "x"]
    assert _columns(frame.groupby(["g", "x"]).size(), "sizes") == ["g", "x", "sizes"]
    assert _columns(frame.set_index(pd.Index(["p", "q", "r"]))) == ["index", "x", "g"]
    assert _columns(pd.Series([1.0, 2.0], index=[2010, 2011]), "years") == ["index", "years"]
    assert _columns(pd.Series([1.0, 2.0]), "plain") == ["plain"]
    assert _columns(pd.DataFrame({"index": [1]}, index=["a"])) == ["level_0", "index"]
    assert _columns(pa.chunked_array([[1, 2]]), "column") == ["column"]
    assert _columns(nw.from_native(pd.DataFrame({"a": [1]}))) == ["a"]


def test_cluster_table_and_column_have_no_row_numbers() -> None:
    import dask.dataframe as dd

    whole = dd.from_pandas(pd.DataFrame({"n": [3, 1, 2]}), npartitions=2)
    for plan in (whole, whole.n, whole[whole.n > 1].n):
        expected = plan.compute().tolist() if plan.ndim == 1 else [3, 1, 2]
        table = decode_dataset(encode_dataset(plan, "plan"))
        assert table.to_dict("list") == {"n": expected}


def test_readers_batches_are_cast_to_its_schema() -> None:
    amounts = pa.schema([("amount", pa.float64())])
    batches = [pa.record_batch({"amount": each}) for each in ([1.5, 2.5], [3, 4])]
    reader = pa.RecordBatchReader.from_batches(amounts, batches)
    assert _back(reader)["amount"].tolist() == [1.5, 2.5, 3.0, 4.0]
    swapped = pa.record_batch({"sold": [1], "bought": [100]})
    names = pa.schema([("bought", pa.int64()), ("sold", pa.int64())])
    with pytest.raises(CodecError, match="field names"):
        encode_dataset(pa.RecordBatchReader.from_batches(names, [swapped]), "df")


def test_multilevel_and_numeric_headers_become_names() -> None:
    frame = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("b", "")]))
    assert _columns(frame) == ["a_x", "b"]
    assert _columns(pd.DataFrame([[1, 2]], columns=[2010, 2011])) == ["2010", "2011"]


def test_value_is_unchanged() -> None:
    frame = pd.DataFrame({1: [1]}, index=pd.Index(["a"]))
    frame.attrs["note"] = object()
    before = frame.copy()
    encode_dataset(frame, "frame")
    pd.testing.assert_frame_equal(frame, before)
    assert "note" in frame.attrs


def test_the_same_table_made_twice_has_the_same_bytes() -> None:
    one, two = (pd.DataFrame({"a": range(50_000), "s": ["x", None] * 25_000}) for _ in range(2))
    assert encode_dataset(one, "df") == encode_dataset(two, "df")
    assert encode_dataset(one, "df") != encode_dataset(two.iloc[::-1], "df")


def test_table_head_is_short_with_total_size() -> None:
    frame = pd.DataFrame(
        {
            "n": [1, 2, 3],
            "f": [0.1 + 0.2, None, 1e-9],
            "s": ["a\nb", None, "x" * 500],
            "day": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
            "a.b": [[1], [2], None],
        }
    )
    head = table_head(encode_dataset(frame, "frame"), rows=2, columns=4)
    assert head.columns == ("n", "f", "s", "day")
    assert head.types[:2] == ("int64", "double")
    assert head.rows == (("1", "0.3", "a b", "2024-01-01"), ("2", "", "", ""))
    assert (head.row_count, head.column_count) == (3, 5)
    whole = table_head(encode_dataset(frame, "frame"))
    assert whole.rows[2][1] == "1e-09"
    assert len(whole.rows[2][2]) == 60
    assert whole.rows[1][4] == "[2]"


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" * 20], ids=["empty", "short", "magic"])
def test_non_parquet_is_reported(data: bytes) -> None:
    with pytest.raises(CodecError, match="can't be read"):
        table_head(data)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1, 2], r"'df' is of type 'list', not a DataFrame: convert it to a DataFrame of pandas"),
        (3.5, "'float'"),
        (pd.DataFrame(), "has no columns"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than one column named 'a'"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "more than one column named '1'"),
        (
            pd.DataFrame({"ok": [1, 2], "m": [1, "x"]}),
            r"'df' holds values .*column m .*df\['…'\]\.astype\(str\)",
        ),
        (pd.DataFrame({"z": [1j]}), "column z "),
        (alt.Chart(pd.DataFrame({"a": [1]})).mark_bar(), "publish it with return_chart"),
    ],
    ids=["list", "float", "empty", "twice", "twice-as-text", "mixed", "complex", "chart"],
)
def test_non_dataset_is_one_sentence(value: object, words: str) -> None:
    with pytest.raises(CodecError, match=words) as caught:
        encode_dataset(value, "df")
    assert "\n" not in str(caught.value)


# -- charts


def _chart(rows: int = 3, **options: Any) -> alt.Chart:
    frame = pd.DataFrame({"g": [f"g{i}" for i in range(rows)], "v": range(rows)})
    return alt.Chart(frame, **options).mark_bar().encode(x="g:N", y=alt.Y("mean(v):Q"))


def test_same_chart_has_same_bytes() -> None:
    one, _ = encode_chart(_chart(), "c")
    assert one == encode_chart(_chart(), "c")[0] != encode_chart(_chart(4), "c")[0]


def test_too_many_rows_ask_for_aggregation() -> None:
    with pytest.raises(CodecError, match=r"5000.*aggregate its data first"):
        encode_chart(_chart(6_000), "c")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (pd.DataFrame({"a": [1]}),
         r"'c' is of type 'pandas\.DataFrame', .*publish it with return_dataset, or build"),
        ("bar", "'c' is of type 'str', not an Altair chart"),
        (alt.Chart(pd.DataFrame({"a": [1]})).mark_bar().encode(x="zz"),
         r"'c' is not valid \(.*\"zz\""),
        (alt.Chart(pd.DataFrame({"a": [1]})), r"'c' is not valid \("),
    ],
    ids=["frame", "text", "no-such-field", "no-mark"],
)  # fmt: skip
def test_non_chart_is_one_sentence(value: object, words: str) -> None:
    with pytest.raises(CodecError, match=words) as caught:
        encode_chart(value, "c")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("render", "begins"), [(render_png, b"\x89PNG"), (render_svg, "<svg")])
def test_chart_picture_is_deterministic(render: Callable[[Any], Any], begins: Any) -> None:
    _, spec = encode_chart(_chart(), "c")
    picture, reason = render(spec)
    assert (picture[: len(begins)], reason) == (begins, "")
    assert render(spec)[0] == picture


def test_specification_is_validated_as_chart() -> None:
    encoded, spec = encode_chart(_chart().to_dict(), "c")
    assert (encoded, spec) == encode_chart(_chart(), "c")
    with pytest.raises(CodecError, match="'c' is not valid"):
        encode_chart({**spec, "mark": {"type": "no such mark"}}, "c")
    with pytest.raises(CodecError, match="not an Altair chart"):
        encode_chart({"mark": "bar"}, "c")


def test_missing_picture_has_reason_and_nothing_is_fetched() -> None:
    chart = alt.Chart("https://example.invalid/x.csv").mark_line().encode(x="a:T", y="b:Q")
    png, reason = render_png(encode_chart(chart, "c")[1])
    assert png is None
    assert "External data url not allowed" in reason
    assert "\n" not in reason


_DRAW_ODD = """
from parsimony_kernel.artifacts.codecs import render_png, render_svg

def chart(title="usual", label="usual", name="n"):
    rows = [{name: 1, "b": label}, {name: 2, "b": "other"}]
    return {"title": title, "data": {"values": rows}, "mark": "bar", "encoding": {
        "x": {"field": name, "type": "quantitative"}, "y": {"field": "b", "type": "nominal"}}}

for odd in ("a\\x00b", "\\x1bred", "\\ud800x", "\\ufffe"):
    for spec in (chart(title=odd), chart(label=odd), chart(name=odd)):
        png, why = render_png(spec)
        assert png and png[1:4] == b"PNG", why
        svg, why = render_svg(spec)
        assert svg and "usual" in svg, why
"""


def test_unencodable_text_is_replaced_in_picture() -> None:
    """At such a character the renderer aborts, so it is asked in a process of its own."""
    done = subprocess.run([sys.executable, "-c", _DRAW_ODD], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Charts in words.


CARS = pd.DataFrame(
    {"year": pd.to_datetime(["1970", "1971"]), "mpg": [18.0, 20.0], "origin": ["a", "b"]}
)
CHART = alt.Chart(CARS)
MPG = CHART.encode(x="year", y="mpg")
LINE = CHART.mark_line().encode(x="yearmonth(year)", y="mpg", color="origin")
HISTOGRAM = CHART.mark_bar().encode(x=alt.X("mpg", bin=True), y="count()")


@pytest.mark.parametrize(
    ("chart", "told"),
    [
        (CHART.mark_line().encode(x="year", y="mean(mpg)"), "line chart of mean mpg by year"),
        (CHART.mark_point().encode(x="mpg", y="year", color="origin"),
         "scatter plot of mpg by year, coloured by origin"),
        (HISTOGRAM, "bar chart of count of records by mpg"),
        (CHART.mark_bar().encode(x="count()", y="origin"),
         "bar chart of count of records by origin"),
        (CHART.mark_arc().encode(theta="mpg", color="origin"),
         "pie chart of mpg, coloured by origin"),
        (MPG.mark_line() + MPG.mark_point(),
         "line chart of mpg by year with scatter plot of mpg by year"),
        (CHART.mark_bar().encode(x="origin", y="mpg").facet("origin"),
         "bar chart of mpg by origin, one panel per origin"),
        (LINE, "line chart of mpg by year (yearmonth), coloured by origin"),
        (LINE | HISTOGRAM, "line chart of mpg by year (yearmonth), coloured by origin "
                           "beside bar chart of count of records by mpg"),
        (HISTOGRAM & HISTOGRAM, "bar chart of count of records by mpg"),
        (CHART.mark_bar().encode(x="origin", y=alt.Y(alt.repeat("row"), type="quantitative"))
         .repeat(row=["mpg"]), "bar chart of origin"),
        (alt.Chart("x.csv").mark_rect().encode(x="a.b:N", y=r"a\\.b:N", color="max(v):Q"),
         "heat map of a.b by a.b, coloured by max v"),
    ],
)  # fmt: skip
def test_chart_is_described(chart: Any, told: str) -> None:
    assert describe_chart(chart.to_dict()) == told


DRAWN = {"mark": "line", "encoding": {"y": {"field": "mpg"}}}
RULES = [{"mark": {"type": "rule"}}, {"mark": "rule", "encoding": None}]
LAYERS = {"encoding": {"x": {"field": "year"}}, "layer": [DRAWN, *RULES]}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "chart"),
        ({"mark": None}, "chart"),
        ({"mark": {}, "encoding": None}, "chart"),
        ({"mark": "new", "encoding": {"x": None, "y": {"value": 3}, "color": []}}, "new chart"),
        ({"layer": [None]}, "chart"),
        (LAYERS, "line chart of mpg by year with rule of year"),
    ],
)
def test_any_specification_is_described(spec: dict[str, Any], told: str) -> None:
    assert describe_chart(spec) == told


@pytest.mark.parametrize(
    ("spec", "title"),
    [
        ({}, ""),
        ({"title": None}, ""),
        ({"title": "Economy"}, "Economy"),
        ({"title": ["a", "b"]}, "a b"),
        ({"title": {"text": ["a", "b"], "fontSize": 9}}, "a b"),
        ({"title": {"fontSize": 9}}, ""),
    ],
)
def test_title_is_one_line(spec: dict[str, Any], title: str) -> None:
    assert title_of(spec) == title
