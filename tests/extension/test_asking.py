"""A question at a terminal."""

import io
import os
import signal
import sys

import pytest

from parsimony_agent.asking import ask_by_input, reader


class Typist:
    """Types ``lines`` and remembers what it was asked."""

    def __init__(self, *lines: str | BaseException) -> None:
        self._lines = list(lines)
        self.asked: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.asked.append(prompt)
        line = self._lines.pop(0)
        if isinstance(line, BaseException):
            raise line
        return line


@pytest.mark.parametrize("line", ["2", " 2 ", "by year", "2 of them", "-1", "2.5"])
def test_a_number_or_words_are_the_answer(line: str) -> None:
    assert ask_by_input("Which?", ("a", "b"), Typist(line)) == line.strip()


@pytest.mark.parametrize("line", ["", "   ", EOFError(), KeyboardInterrupt()])
def test_nothing_the_end_of_input_and_ctrl_c_leave_it_open(line: str | BaseException) -> None:
    typist = Typist(line)
    assert ask_by_input("Which?", ("a",), typist) is None
    assert len(typist.asked) == 1


@pytest.mark.parametrize("number", ["0", "3", "9" * 5000, "٣"])
def test_a_number_that_no_choice_has_is_asked_for_again(number: str) -> None:
    typist = Typist(number, "1")
    assert ask_by_input("Which?", ("a", "b"), typist) == "1"
    assert typist.asked[1].startswith("There is no choice")
    assert typist.asked[1].endswith(typist.asked[0])


def test_without_choices_a_number_is_words() -> None:
    assert ask_by_input("How many?", (), Typist("12")) == "12"


def test_the_question_is_printed_as_one_harmless_line() -> None:
    typist = Typist("")
    ask_by_input("Delete\x1b[2J all\n\u202eof it" + "x" * 500, ("yes", "no"), typist)
    question, how = typist.asked[0].split("\n")
    assert question.startswith("Delete all \ufffdof it")
    assert len(question) <= 200
    assert "1 to 2" in how


def test_ctrl_c_ends_the_reading_whatever_it_means_around_it() -> None:
    pressed: list[int] = []

    def read(_prompt: str) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "not reached"

    before = signal.signal(signal.SIGINT, lambda number, _frame: pressed.append(number))
    try:
        assert ask_by_input("Which?", (), read) is None
        assert pressed == []
        os.kill(os.getpid(), signal.SIGINT)
        assert pressed == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_only_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Tty())
    assert reader() is input
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert reader() is None
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr(sys, "stdin", gone)
    assert reader() is None
    monkeypatch.setattr(sys, "stdin", None)
    assert reader() is None
