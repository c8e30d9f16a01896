"""A turn is named by its number or by the beginning of its id, and the two are never mixed up."""

import pytest

from parsimony_kernel.session.turn_values import SessionError, resolve_turn, short_id
from parsimony_kernel.storage.journal import TurnRow


def turn(ordinal: int, run_id: str, notebook: str = "a.ipynb") -> TurnRow:
    return TurnRow(run_id, notebook, "", ordinal, "", "", "done", "")


SEVENTH = turn(1, "7fabc0" + "0" * 26)
NEIGHBOUR = turn(2, "7fabc0" + "1" * 26)
DIGITS = turn(3, "1234567890e" + "0" * 21)
ELSEWHERE = turn(3, "cc4000" + "0" * 26, "b.ipynb")
TURNS = (SEVENTH, NEIGHBOUR, DIGITS, ELSEWHERE)


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        (None, ELSEWHERE),
        ("1", SEVENTH),
        ("cc4000", ELSEWHERE),
        ("7fabc000", SEVENTH),
        (NEIGHBOUR.run_id, NEIGHBOUR),
        (short_id(DIGITS.run_id), DIGITS),
    ],
)
def test_number_or_six_id_characters_find_turn(named: str | None, meant: TurnRow) -> None:
    assert resolve_turn(TURNS, named) is meant


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ("7", "There is no turn 7 in this notebook. See %agent history."),
        ("123456", "There is no turn 123456 in this notebook. See %agent history."),
        ("01", "There is no turn 01 in this notebook. See %agent history."),
        ("7fabc", "There is no turn 7fabc in this notebook. See %agent history."),
        ("7fabd0", "There is no turn 7fabd0 in this notebook. See %agent history."),
        (
            "3",
            f"'3' means 2 turns: {DIGITS.run_id} of 'a.ipynb', {ELSEWHERE.run_id} of 'b.ipynb'. "
            "Name one by its id.",
        ),
    ],
)
def test_unknown_or_ambiguous_reference_names_remedy(named: str, sentence: str) -> None:
    with pytest.raises(SessionError) as raised:
        resolve_turn(TURNS, named)
    assert str(raised.value) == sentence
