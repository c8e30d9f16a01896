"""The picture of where a variable comes from."""

import itertools
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.lineage.picture import draw
from parsimony_kernel.lineage.why import Explanation, Input, Step

SVG = "{http://www.w3.org/2000/svg}"


def step(name: str, *inputs: Input, place: str = "your cell", **options: object) -> Step:
    return Step(name, 1, place, f"{name} = ...", inputs, **options)  # type: ignore[arg-type]


def words(picture: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in picture.iter(f"{SVG}text")]


def boxes(picture: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    found = []
    for group in picture.iter(f"{SVG}g"):
        box = group.find(f"{SVG}rect")
        assert box is not None
        x, y, width, height = (float(box.attrib[each]) for each in ("x", "y", "width", "height"))
        found.append((x, y, x + width, y + height))
    return found


RAW = Input("raw", 1, 2, is_stale=True)
TOLD = Explanation(
    "df",
    (
        step("df", Input("mid", 1, 1), RAW, Input("old", 0, 0), place="turn 2, step 1"),
        step("mid", RAW),
        step("raw", sources=("cars.csv", "https://example.org")),
    ),
)


def test_what_a_step_was_made_of_stands_above_it_and_what_has_no_box_is_named() -> None:
    picture = ElementTree.fromstring(draw(TOLD))
    rows = [[line.text for line in each.findall(f"{SVG}text")] for each in picture.iter(f"{SVG}g")]
    assert [row[0] for row in rows] == ["raw v1", "mid v1", "df v1"]
    assert rows[0][-1] == "! changed since: now v2 · reads cars.csv · reads example.org"
    assert rows[2][-1] == "from old, of unknown origin"


def test_what_is_stale_is_told_by_words_and_a_dashed_line() -> None:
    picture = ElementTree.fromstring(draw(TOLD))
    assert any(each.startswith("! changed since: now v2") for each in words(picture))
    assert words(picture).count("stale") == 2
    dashed = [each for each in picture.iter(f"{SVG}path") if "stroke-dasharray" in each.attrib]
    assert len(dashed) == 2


def test_of_several_statements_the_first_is_drawn_and_all_are_in_the_title() -> None:
    told = Explanation("x", (Step("x", 1, "your cell", "x = [0]\nx.append(1)"),))
    picture = ElementTree.fromstring(draw(told))
    assert "x = [0] …" in words(picture)
    assert [each.text for each in picture.iter(f"{SVG}title")][1] == "x v1: x = [0]\nx.append(1)"


def test_the_picture_has_a_name_and_the_text_for_those_who_do_not_see_it() -> None:
    picture = ElementTree.fromstring(draw(TOLD))
    title, description = picture.find(f"{SVG}title"), picture.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert picture.attrib["role"] == "img"
    assert picture.attrib["aria-labelledby"] == f"{title.attrib['id']} {description.attrib['id']}"
    assert (title.text, description.text) == ("Where df comes from", TOLD.text())


def test_two_pictures_in_one_page_share_no_ids() -> None:
    other = Explanation("x", (step("x"),))
    ids = [set(re.findall(r'id="([^"]*)"', draw(each))) for each in (TOLD, other)]
    assert ids[0].isdisjoint(ids[1])


def test_nothing_comes_from_elsewhere_and_nothing_runs() -> None:
    text = draw(TOLD)
    picture = ElementTree.fromstring(text)
    assert {each.tag.removeprefix(SVG) for each in picture.iter()} <= {
        "svg", "title", "desc", "style", "rect", "g", "text", "path",
    }  # fmt: skip
    names = {name for each in picture.iter() for name in each.attrib}
    assert not [name for name in names if name.startswith("on") or "href" in name]
    style = picture.find(f"{SVG}style")
    assert style is not None
    assert "url(" not in (style.text or "")
    assert "@import" not in (style.text or "")


def test_a_style_of_its_own_colours_nothing_else_in_the_page() -> None:
    style = ElementTree.fromstring(draw(TOLD)).find(f"{SVG}style")
    assert style is not None
    rules = re.sub(r"@media[^{]*\{", "", style.text or "")
    selectors = re.findall(r"([^{}]+)\{", rules)
    assert selectors
    assert all(each.startswith(".pkw ") for each in selectors)
    assert "prefers-color-scheme:dark" in (style.text or "")


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_whatever_a_name_a_file_or_a_cell_holds_the_picture_is_sound(
    name: str, path: str, code: str
) -> None:
    told = Explanation(name, (Step(name, 1, "your cell", code, (), (path,)),), problem="")
    picture = ElementTree.fromstring(draw(told))
    assert {each.tag.removeprefix(SVG) for each in picture.iter()} <= {
        "svg", "title", "desc", "style", "rect", "g", "text", "path",
    }  # fmt: skip


@pytest.mark.parametrize("count", [1, 5, 20])
def test_the_boxes_lie_inside_and_never_overlap(count: int) -> None:
    steps = [
        step(f"v{number}", *(Input(f"v{each}", 1, 1) for each in range(max(0, number - 4), number)))
        for number in reversed(range(count))
    ]
    picture = ElementTree.fromstring(draw(Explanation(f"v{count - 1}", tuple(steps), 7)))
    found = boxes(picture)
    wide, high = map(float, picture.attrib["viewBox"].split()[2:])
    assert len(found) == count
    assert all(left >= 0 and right <= wide and low <= high for left, _, right, low in found)
    assert all(one[3] < other[1] for one, other in itertools.pairwise(found))
    assert "7 earlier steps not drawn" in words(picture)


def test_steps_of_one_cell_that_lead_to_each_other_are_drawn_once() -> None:
    told = Explanation("a", (step("a", Input("b", 1, 1)), step("b", Input("a", 1, 1))))
    assert len(boxes(ElementTree.fromstring(draw(told)))) == 2


def test_without_steps_the_picture_says_why() -> None:
    told = Explanation("dff", problem="There is no variable dff.", nearest=("df",))
    assert words(ElementTree.fromstring(draw(told))) == [
        "There is no variable dff. Did you mean df?"
    ]
