"""How a file of data is written is found in its text, or left to a person."""

from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from parsimony_kernel.execution.csv_dialect import readings, readings_of, sniff

FOUND = [
    ("a,b\n1.5,x\n2,y\n", {}),
    ("a;b\n1,5;x\n2.000,25;y\n", {"sep": ";", "decimal": ",", "thousands": "."}),
    ("a|b\n1.5|x\n", {"sep": "|"}),
    ("a\tb\n1.5\tx\n", {"sep": "\t"}),
    ('a,b\n"1,500",x\n"2,000.5",y\n', {"thousands": ","}),
    ("a;b\n0.123;x\n1.234;y\n12.5;z\n", {"sep": ";"}),
    ("day,n\n24.12.2024,1\n", {"parse_dates": ["day"], "date_format": {"day": "%d.%m.%Y"}}),
    ("day,n\n12/24/2024 08:00,1\n",
     {"parse_dates": ["day"], "date_format": {"day": "%m/%d/%Y %H:%M"}}),
    ("day,n\n2024-12-24,1\n", {}),
    ('name,text\nAnn,"one, two"\nBo,three\n', {}),
    ("Sales by branch\nas of 2026\na,b\n1.5,x\n2,y\n", {"skiprows": 2}),
    ("Sales;;\n01.02.2026;;\n\nday;shop;n\n24.12.2024;x, y;1,5\n25.12.2024;z;2.000,25\n",
     {"sep": ";", "skiprows": 3, "decimal": ",", "thousands": ".",
      "parse_dates": ["day"], "date_format": {"day": "%d.%m.%Y"}}),
    ("Sales, 2025\nshop;n\nx;1,5\ny;2,5\nz;3,5\n", {"sep": ";", "skiprows": 1, "decimal": ","}),
    ("Sales in 2025\nland;2019;2020\nx;1;5\ny;2;5\n", {"sep": ";", "skiprows": 1}),
    ("shop, town;m;n\nx, y;1,5;2,5\nz, u;2,5;3,5\n", {"sep": ";", "decimal": ","}),
    ("shop;m;n\nx, y;1,5;2,5\nz, u;2,5;3,5\n", {"sep": ";", "decimal": ","}),
    ("a,b,c\n1,2\n3,4,5\n6,7,8\n9,0,1\n2,3,4\n", {}),
    (",town\nAnn,Rome\nBo,Oslo\n", {}),
    ("lake;temp\nTarn;12,1\nMere;-\n",
     {"sep": ";", "decimal": ",", "na_values": {"temp": ["-"]}}),
    ("lake,grade\nTarn,A\nMere,unknown\n", {}),
    # As R writes it: the row names have no name.
    ('"mpg","cyl"\n"Mazda RX4",21,6\n"Datsun 710",22.8,4\n', {}),
    ('"mpg"\t"cyl"\n"Mazda RX4"\t21\t6\n"Datsun 710"\t22.8\t4\n', {"sep": "\t"}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options"), FOUND, ids=[t.split("\n")[0] for t, _ in FOUND])
def test_dialect_is_detected(text: str, options: dict[str, Any]) -> None:
    (only,) = readings(text.encode())
    assert (only.options, only.says) == (options, "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a;b\n1.234;x\n5.678;y\n", ["1.234 means 1,234", "1.234 has three decimals"]),
        ("a;b\n1,234;x\n5,678;y\n", ["1,234 means 1,234", "1,234 has three decimals"]),
        ("day,n\n03/04/2024,1\n",
         ["03/04/2024 begins with the day", "03/04/2024 begins with the month"]),
    ],
)  # fmt: skip
def test_both_readings_are_returned(text: str, says: list[str]) -> None:
    found = readings(text.encode())
    assert [each.says for each in found] == says
    frames = [pd.read_csv(BytesIO(text.encode()), **each.options) for each in found]
    assert not frames[0].equals(frames[1])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encoding_is_detected(encoding: str) -> None:
    data = "stadt;größe €\nKöln;405\n".encode(encoding)
    (only,) = readings(data)
    frame = pd.read_csv(BytesIO(data), **only.options)
    assert frame.to_dict("list") == {"stadt": ["Köln"], "größe €": [405]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,n\nx,1\n", "sep=','"),
        ("Umsatz;;\nStand: 2026;;\nTag;Ort;n\n24.12.2024;Köln;1,5\n",
         "sep=';', skiprows=2, encoding='cp1252', decimal=',', parse_dates=['Tag'], "
         "date_format={'Tag': '%d.%m.%Y'}"),
        ('price,n\n"$1,200.50",47%\n$3.00,5%\n',
         "sep=',', thousands=','  # numbers with a sign in price, n"),
        ("price;n\n1.5;2,5 %\n2.25;3,5 %\n", "sep=';'"),  # pandas reads one decimal mark
        ("price;n\n3 EUR;1\n$4;2\n", "sep=';'"),  # two currencies
        ("a;n\nx;1.234\n",
         "sep=';', thousands='.'  # 1.234 means 1,234\nsep=';'  # 1.234 has three decimals"),
    ],
)  # fmt: skip
def test_model_is_given_arguments_to_paste(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(text, encoding="cp1252")
    assert sniff(str(path)) == told
    for line in told.splitlines():
        frame = eval(f"pd.read_csv({str(path)!r}, {line}\n)")
        assert frame.columns[-1] == "n"
    assert len(readings_of(str(path))) == len(told.splitlines())
