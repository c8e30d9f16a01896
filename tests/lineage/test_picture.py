"""The picture of where a variable comes from."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.lineage.picture import MOST_NODES, draw
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


def test_sources_stand_above_what_is_made_of_them() -> None:
    picture = ElementTree.fromstring(draw(TOLD))
    height = {
        (group.findall(f"{SVG}text")[0].text or ""): float(
            group.findall(f"{SVG}text")[0].attrib["y"]
        )
        for group in picture.iter(f"{SVG}g")
    }
    order = ("cars.csv", "raw v1", "mid v1", "df v1")
    assert sorted(order, key=lambda name: height[name]) == list(order)
    assert height["https://example.org"] < height["raw v1"]
    assert "old" in height


def test_what_is_stale_is_told_by_words_and_a_dashed_line() -> None:
    picture = ElementTree.fromstring(draw(TOLD))
    assert "! changed since: now v2 (your cell)" in words(picture)
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


@pytest.mark.parametrize("count", [1, 5, 39, 60, 300])
def test_the_boxes_are_few_lie_inside_and_never_overlap(count: int) -> None:
    steps = [
        step(f"v{number}", *(Input(f"v{each}", 1, 1) for each in range(max(0, number - 4), number)))
        for number in reversed(range(count))
    ]
    picture = ElementTree.fromstring(draw(Explanation(f"v{count - 1}", tuple(steps), 7)))
    found = boxes(picture)
    assert len(found) <= MOST_NODES
    wide, high = map(float, picture.attrib["viewBox"].split()[2:])
    assert all(left >= 0 and right <= wide and low <= high for left, _, right, low in found)
    for place, (_, top, _, bottom) in enumerate(found):
        assert all(bottom < other[1] or top > other[3] for other in found[:place])


def test_what_is_not_drawn_is_counted() -> None:
    steps = [step(f"v{number}", Input(f"v{number - 1}", 1, 1)) for number in range(100, 1, -1)]
    told = Explanation("v100", tuple(steps), left_out=11)
    drawn = ElementTree.fromstring(draw(told))
    shown = len([each for each in words(drawn) if re.fullmatch(r"v\d+ v1", each)])
    assert f"{110 - shown} earlier steps" in words(drawn)


def test_many_sources_of_one_step_are_summed_up() -> None:
    sources = tuple(f"part-{number}.csv" for number in range(100))
    picture = ElementTree.fromstring(draw(Explanation("df", (step("df", sources=sources),))))
    assert "94 more sources" in words(picture)


def test_without_steps_the_picture_says_why() -> None:
    told = Explanation("dff", problem="There is no variable dff.", nearest=("df",))
    assert words(ElementTree.fromstring(draw(told))) == [
        "There is no variable dff. Did you mean df?"
    ]
