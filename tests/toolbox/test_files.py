"""Text files of the workspace: what may be read and written, and what is never lost."""

import os
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.toolbox.files import MAX_LISTED, MAX_SHOWN, MAX_WRITTEN, file_tools


@pytest.fixture
def root(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "analysis" / "data").mkdir(parents=True)
    (work / ".ockham").mkdir()
    (work / ".ockham" / "log.jsonl").write_text("{}\n")
    (work / ".env").write_text("KEY=secret-of-the-person\n")
    (work / "analysis" / "note.md").write_text("one\ntwo\nthree\n")
    (work / "analysis" / "here.ipynb").write_text("{}")
    (work / "other.txt").write_text("beside\n")
    (tmp_path / "outside.txt").write_text("not yours\n")
    return work


@pytest.fixture
def gate(root: Path) -> Gate:
    return Gate(file_tools(root, root / "analysis"), timeout_s=60)


async def answered(gate: Gate, name: str, **arguments: Any) -> Any:
    outcome = await gate.step(name, arguments)
    assert outcome.failure is None, outcome.envelope
    assert outcome.result is not None
    return outcome.result.data


async def refused(gate: Gate, name: str, **arguments: Any) -> str:
    outcome: StepOutcome = await gate.step(name, arguments)
    assert outcome.failure is not None
    return outcome.failure.explanation


class TestReading:
    async def test_lines_are_counted_from_one(self, gate: Gate) -> None:
        shown = await answered(gate, "read_file", path="note.md", start_line=2, lines=1)
        assert (shown["text"], shown["first_line"], shown["last_line"]) == ("two\n", 2, 2)
        assert not shown["complete"]

    async def test_a_short_file_is_complete(self, gate: Gate) -> None:
        shown = await answered(gate, "read_file", path="note.md")
        assert (shown["text"], shown["complete"]) == ("one\ntwo\nthree\n", True)

    async def test_a_file_above_the_notebook_is_told_as_it_is_named(self, gate: Gate) -> None:
        assert (await answered(gate, "read_file", path="../other.txt"))["path"] == "../other.txt"

    async def test_one_long_line_is_cut_and_said_to_be(self, gate: Gate, root: Path) -> None:
        (root / "long.txt").write_text("x" * 100_000)
        shown = await answered(gate, "read_file", path="../long.txt")
        assert len(shown["text"]) == MAX_SHOWN
        assert not shown["complete"]

    async def test_what_is_no_text_is_left_to_code(self, gate: Gate, root: Path) -> None:
        (root / "a.parquet").write_bytes(b"PAR1\0\0\0")
        assert "run_code" in await refused(gate, "read_file", path="../a.parquet")

    @pytest.mark.parametrize(
        "path",
        ["../../outside.txt", "/etc/passwd", "../.env", "../.ockham/log.jsonl", "a\0b", "~/.ssh/x"],
    )
    async def test_what_lies_outside_or_is_hidden_is_not_read(self, gate: Gate, path: str) -> None:
        said = await refused(gate, "read_file", path=path)
        assert "secret" not in said
        assert path.partition("\0")[0] in said

    async def test_a_link_that_leads_out_is_not_followed(self, gate: Gate, root: Path) -> None:
        (root / "analysis" / "link.txt").symlink_to(root.parent / "outside.txt")
        assert "outside the workspace" in await refused(gate, "read_file", path="link.txt")


class TestListing:
    async def test_files_come_with_sizes_and_hidden_ones_do_not(self, gate: Gate) -> None:
        listed = await answered(gate, "list_files", folder="..")
        assert listed["files"] == [
            {"path": "here.ipynb", "bytes": 2},
            {"path": "note.md", "bytes": 14},
            {"path": "../other.txt", "bytes": 7},
        ]

    async def test_a_pattern_chooses_by_name_at_any_depth(self, gate: Gate, root: Path) -> None:
        (root / "analysis" / "data" / "a.csv").write_text("x\n")
        listed = await answered(gate, "list_files", pattern="*.csv")
        assert [each["path"] for each in listed["files"]] == ["data/a.csv"]

    async def test_very_many_are_counted(self, gate: Gate, root: Path) -> None:
        for number in range(MAX_LISTED + 3):
            (root / "analysis" / "data" / f"{number:04}").touch()
        listed = await answered(gate, "list_files", folder="data")
        assert (len(listed["files"]), listed["more"]) == (MAX_LISTED, 3)

    async def test_a_folder_that_links_to_itself_ends(self, gate: Gate, root: Path) -> None:
        (root / "analysis" / "data" / "self").symlink_to(root / "analysis")
        assert len((await answered(gate, "list_files"))["files"]) == 2


class TestWriting:
    async def test_a_new_file_is_made_with_its_folders(self, gate: Gate, root: Path) -> None:
        await answered(gate, "write_file", path="out/of/it.md", content="é\n")
        assert (root / "analysis" / "out" / "of" / "it.md").read_bytes() == "é\n".encode()

    async def test_a_file_that_nobody_read_is_not_replaced(self, gate: Gate, root: Path) -> None:
        assert "read_file it first" in await refused(
            gate, "write_file", path="note.md", content="mine"
        )
        assert (root / "analysis" / "note.md").read_text() == "one\ntwo\nthree\n"

    async def test_what_is_replaced_is_kept(self, gate: Gate, root: Path) -> None:
        await answered(gate, "read_file", path="note.md")
        answer = await answered(gate, "write_file", path="note.md", content="mine")
        assert (root / "analysis" / "note.md").read_text() == "mine"
        assert (root / answer["before"]).read_text() == "one\ntwo\nthree\n"

    async def test_a_file_that_changed_since_it_was_read_is_left(
        self, gate: Gate, root: Path
    ) -> None:
        await answered(gate, "read_file", path="note.md")
        (root / "analysis" / "note.md").write_text("the person's newer words")
        assert "changed since" in await refused(gate, "write_file", path="note.md", content="mine")
        assert (root / "analysis" / "note.md").read_text() == "the person's newer words"

    async def test_its_own_file_may_be_written_again(self, gate: Gate, root: Path) -> None:
        await answered(gate, "write_file", path="a.md", content="1")
        await answered(gate, "write_file", path="a.md", content="2")
        assert (root / "analysis" / "a.md").read_text() == "2"

    @pytest.mark.parametrize(
        "path",
        [
            "here.ipynb",
            "HERE.IPYNB",
            "../.ockham/log.jsonl",
            "../.OCKHAM/log.jsonl",
            "../x/../.ockham/names/a.json",
            ".git/hooks/pre-commit",
            "../../outside.txt",
            "con.txt",
            "a" * 300,
            "a\u202eb.md",
            "",
            ".",
            "data",
        ],
    )
    async def test_the_record_notebooks_and_what_lies_outside_are_never_written(
        self, gate: Gate, root: Path, path: str
    ) -> None:
        before = {each: each.read_bytes() for each in root.parent.rglob("*") if each.is_file()}
        await refused(gate, "write_file", path=path, content="mine")
        after = {each: each.read_bytes() for each in root.parent.rglob("*") if each.is_file()}
        assert after == before

    async def test_the_notebook_is_not_reached_through_a_link(self, gate: Gate, root: Path) -> None:
        (root / "analysis" / "plain.txt").symlink_to(root / "analysis" / "here.ipynb")
        assert "notebook" in await refused(gate, "write_file", path="plain.txt", content="mine")

    async def test_a_huge_text_is_refused(self, gate: Gate) -> None:
        said = await refused(gate, "write_file", path="a", content="x" * (MAX_WRITTEN + 1))
        assert "1 MiB" in said

    async def test_nothing_is_left_where_it_cannot_be_written(self, gate: Gate, root: Path) -> None:
        if os.geteuid() == 0:
            (root / "analysis" / "file").write_text("")
            said = await refused(gate, "write_file", path="file/below.md", content="x")
        else:
            (root / "analysis" / "data").chmod(0o500)
            said = await refused(gate, "write_file", path="data/below.md", content="x")
        assert "Cannot" in said


class TestEditing:
    async def test_one_piece_is_replaced_and_the_file_kept(self, gate: Gate, root: Path) -> None:
        answer = await answered(gate, "edit_file", path="note.md", old="two", new="2")
        assert (root / "analysis" / "note.md").read_text() == "one\n2\nthree\n"
        assert (root / answer["before"]).read_text() == "one\ntwo\nthree\n"

    @pytest.mark.parametrize("old", ["e", "four", ""])
    async def test_a_piece_that_is_not_there_once_changes_nothing(
        self, gate: Gate, root: Path, old: str
    ) -> None:
        await refused(gate, "edit_file", path="note.md", old=old, new="x")
        assert (root / "analysis" / "note.md").read_text() == "one\ntwo\nthree\n"

    async def test_bytes_that_are_not_utf8_are_not_spoiled(self, gate: Gate, root: Path) -> None:
        (root / "latin.txt").write_bytes(b"caf\xe9 two")
        assert "UTF-8" in await refused(gate, "edit_file", path="../latin.txt", old="two", new="2")
        assert (root / "latin.txt").read_bytes() == b"caf\xe9 two"

    async def test_line_ends_and_a_byte_order_mark_stay(self, gate: Gate, root: Path) -> None:
        (root / "dos.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
        await answered(gate, "edit_file", path="../dos.txt", old="two", new="2")
        assert (root / "dos.txt").read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n"
