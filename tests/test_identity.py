"""Ids, names and places of artifacts."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.identity import (
    ArtifactRef,
    LiveNameCollisionError,
    canonical_json,
    checked_name,
    dataset_logical_id,
    live_name_key,
    notebook_content_sha,
    notebook_logical_id,
    object_pool_path,
    slug_from_title,
)

BAD_NAMES = [
    "..", ".", "../../etc/passwd", "a/b", "a\\b", "/etc", "C:evil", "a\0b", "a\nb", "a\u202eb",
    "a\u200bb", "\ud800", "con", "NUL.txt", "Lpt1", "con .txt", "a:stream", "what?", 'say "so"',
    "a|b", " leading", "a\u00a0b", "a\ue000", "a\u0378", "a\u2028b", "trailing.", "trailing ",
    "   ", "x" * 300, unicodedata.normalize("NFD", "é"),
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_a_name_that_cannot_be_part_of_a_path_everywhere_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r": (choose another|give it a name)\."):
        checked_name(name)
    with pytest.raises(ValueError, match="logical_id"):
        ArtifactRef("dataset", name, "ab12")


@pytest.mark.parametrize("name", ["us_gdp", "Ünïcode", "日本", "a.b", ".hidden", "con_text", "a b"])
def test_honest_name_is_unchanged(name: str) -> None:
    assert checked_name(name) == name


@given(st.text())
def test_accepted_name_stays_in_its_folder(name: str) -> None:
    try:
        path = ArtifactRef("dataset", name, "ab12").workspace_file_path
    except ValueError:
        return
    assert path.count("/") == 3
    assert "\0" not in path
    assert "/../" not in path


def test_single_text_for_several_values_is_an_error() -> None:
    with pytest.raises(TypeError, match="put it in a list"):
        dataset_logical_id(notebook_ids="foo", variable_name="df", sources=[])


def test_canonical_json_has_no_nan() -> None:
    assert canonical_json({"b": 1, "a": "é"}) == '{"a":"é","b":1}'.encode()
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(float("nan"))


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("US GDP, growth (%)", "us_gdp_growth"),
        ("  Économie -- 2012  ", "economie_2012"),
        ("日本の人口", "日本の人口"),
        ("../..", "untitled"),
        ("", "untitled"),
        ("CON", "con_"),
    ],
)
def test_title_becomes_plain_name(title: str, slug: str) -> None:
    assert slug_from_title(title) == slug


@given(st.text())
def test_every_slug_is_a_name(title: str) -> None:
    slug = slug_from_title(title)
    assert checked_name(slug) == slug
    assert len(slug) <= 61


@pytest.mark.parametrize(
    ("one", "two"), [("Foo", "fOO"), ("ﬁle", "file"), ("é", "e\u0301"), ("a/ＢＣ", "a/bc")]
)
def test_names_of_other_case_or_width_are_one_live_name(one: str, two: str) -> None:
    assert live_name_key("dataset", one) == live_name_key("dataset", two)
    assert live_name_key("dataset", one) != live_name_key("chart", two)


@given(st.text())
def test_live_name_has_one_key_in_any_normalization(name: str) -> None:
    key = live_name_key("chart", name)
    assert len(key) == 32
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert live_name_key("chart", unicodedata.normalize(form, name)) == key
    assert live_name_key("report", name) != key


def test_visibly_different_names_stay_apart() -> None:
    names = ["sales", "sale", "sales1", "sales2", "ventes", "продажи", "売上", "", "a/b", "ab"]
    assert len({live_name_key("dataset", name) for name in names}) == len(names)


@pytest.mark.parametrize(
    "sha", ["ab", "..evil", "..", "a./b", "abcdez", "ABCDEF", "abnul", "ab\u0660"]
)
def test_non_digest_has_no_pool_path(sha: str) -> None:
    assert object_pool_path("abcd") == ".ockham/objects/ab/cd.parquet"
    with pytest.raises(ValueError, match=r"content_sha.*all its hex digits"):
        object_pool_path(sha)


@given(st.text())
def test_pool_path_stays_in_pool(sha: str) -> None:
    try:
        path = ArtifactRef("data_object", "any", sha).workspace_file_path
    except ValueError:
        return
    _, objects, folder, name = path.split("/")
    assert objects == "objects"
    assert set(folder + name.removesuffix(".parquet")) <= set("0123456789abcdef")


def test_line_separator_in_text_is_code() -> None:
    assert notebook_content_sha("x = 'a\u2028b'") != notebook_content_sha("x = 'a\nb'")
    assert notebook_content_sha("x = 'a\x0cb'") != notebook_content_sha("x = 'a\nb'")


@pytest.mark.parametrize("path", ["what?.ipynb", " .ipynb", "con.py", "x" * 300, "a\u200b.py"])
def test_unusable_notebook_name_gets_own_id(path: str) -> None:
    logical_id = notebook_logical_id(path)
    assert checked_name(logical_id) == logical_id
    assert logical_id != notebook_logical_id("other" + path)
    assert logical_id == notebook_logical_id("elsewhere/" + path)


def test_collision_names_remedy() -> None:
    message = str(LiveNameCollisionError("dataset", "gdp", "other.ipynb"))
    assert "'gdp' belongs to 'other.ipynb'" in message
    assert "Publish under another name; to replace that dataset, read it first" in message
