"""Who used what is taken back, from the ledger alone."""

import pytest

from parsimony_kernel.lineage.dependents import dependents, warnings
from parsimony_kernel.lineage.ledger import CellRun, InputRef, OriginLedger, VariableOrigin


class Book:
    """A ledger that is written by hand."""

    def __init__(self) -> None:
        self.ledger = OriginLedger()

    def ran(self, code: str, reads: str, made: str, *, run_id: str = "", cell: str = "") -> None:
        """A run of ``code``, with the names it read and made, a letter each."""
        ledger = self.ledger
        number = ledger.next_cell_run()
        where = {
            "actor": "agent" if run_id else "user",
            "notebook_path": "n.ipynb",
            "cell_id": cell or f"c{number}",
            "run_id": run_id,
            "code": code,
            "code_sha": "",
        }
        inputs = tuple(InputRef(name=name, version=ledger.version(name)) for name in reads)
        refs = tuple(InputRef(name=name, version=ledger.next_version(name)) for name in made)
        for ref in refs:
            ledger.stamp(
                VariableOrigin.model_validate(
                    {**where, "name": ref.name, "version": ref.version, "cell_run": number}
                )
            )
        ledger.record(
            CellRun.model_validate({**where, "number": number, "reads": inputs, "made": refs})
        )

    def found(self, *undone: str, after: int = 0, apart_from: str = "") -> list[str]:
        refs = [InputRef(name=each[0], version=int(each[1:])) for each in undone]
        return [
            each.cell.code
            for each in dependents(self.ledger, refs, after=after, apart_from=apart_from)
        ]


@pytest.fixture
def book() -> Book:
    return Book()


def test_only_the_version_that_is_undone_counts(book: Book) -> None:
    book.ran("first", "", "a")
    book.ran("of the first", "a", "b")
    book.ran("second", "", "a", run_id="t")
    book.ran("of the second", "a", "c")
    assert book.found("a2") == ["of the second"]
    assert book.found("a1") == ["of the first"]
    assert book.found("a3") == []


def test_it_goes_all_the_way_and_past_what_is_overwritten(book: Book) -> None:
    book.ran("turn", "", "a", run_id="t")
    book.ran("one", "a", "b")
    book.ran("two", "b", "c")
    book.ran("other", "", "b")
    assert book.found("a1") == ["two"]


def test_a_cell_that_reads_itself_ends(book: Book) -> None:
    book.ran("turn", "", "a", run_id="t")
    for _ in range(3):
        book.ran("a += 1", "a", "a")
    assert book.found("a1") == ["a += 1"]


def test_the_turns_own_cells_and_earlier_ones_do_not_count(book: Book) -> None:
    book.ran("turn", "", "a", run_id="t")
    book.ran("its next step", "a", "b", run_id="t")
    book.ran("mine", "a", "c")
    assert book.found("a1", apart_from="t") == ["mine"]
    assert book.found("a1", after=2) == ["mine"]
    assert book.found("a1", after=3) == []


def test_an_agents_cell_that_only_looked_is_nobodys_trouble(book: Book) -> None:
    book.ran("turn", "", "a", run_id="t")
    book.ran("looked", "a", "", run_id="u")
    book.ran("I looked", "a", "")
    assert book.found("a1") == ["I looked"]


def test_many_are_counted_and_long_cells_are_one_line(book: Book) -> None:
    book.ran("turn", "", "a", run_id="t")
    for number in range(10):
        book.ran(f"x{number} = (\n    a\n)" + "#" * 200, "a", chr(ord("b") + number))
    refs = [InputRef(name="a", version=1)]
    lines = warnings(dependents(book.ledger, refs), 4)
    assert len(lines) == 9
    assert lines[-1] == "And 2 more."
    assert lines[0].startswith("Your cell `x0 = ( a )###")
    assert lines[0].endswith("…` used `a` as turn 4 left it: run it again.")
    assert "\n" not in lines[0]
