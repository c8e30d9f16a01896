"""Text files of the workspace: what may be read and written, and what is never lost."""

import os
import tracemalloc
from collections.abc import Callable, Iterator
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
    return Gate(file_tools(root, root / "analysis", root / "analysis" / "here.ipynb"), timeout_s=60)


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
    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"path": "note.md", "start_line": 2, "lines": 1}, ("note.md", "two\n", 2, 2, False)),
            ({"path": "note.md"}, ("note.md", "one\ntwo\nthree\n", 1, 3, True)),
            ({"path": "../other.txt"}, ("../other.txt", "beside\n", 1, 1, True)),
        ],
    )
    async def test_lines_are_counted_from_one_and_a_whole_file_is_complete(
        self, gate: Gate, given: dict[str, Any], told: tuple[Any, ...]
    ) -> None:
        assert tuple((await answered(gate, "read_file", **given)).values()) == told

    async def test_one_long_line_is_cut_and_said_to_be(self, gate: Gate, root: Path) -> None:
        (root / "long.txt").write_text("x" * 100_000)
        shown = await answered(gate, "read_file", path="../long.txt")
        assert len(shown["text"]) == MAX_SHOWN
        assert not shown["complete"]

    @pytest.mark.parametrize("length", [MAX_WRITTEN // 2, MAX_WRITTEN * 2])
    async def test_characters_and_lines_longer_than_a_piece_stay_whole(
        self, gate: Gate, root: Path, length: int
    ) -> None:
        (root / "long.txt").write_text("x" + "é" * (length // 2) + "\nnext é\nlast", "utf-8")
        shown = await answered(gate, "read_file", path="../long.txt")
        assert shown["text"] == "x" + "é" * (MAX_SHOWN - 1)
        assert (shown["last_line"], shown["complete"]) == (1, False)
        shown = await answered(gate, "read_file", path="../long.txt", start_line=2, lines=9)
        assert shown["text"] == "next é\nlast"
        assert (shown["first_line"], shown["last_line"]) == (2, 3)

    @pytest.mark.parametrize("line", [1, 2])
    async def test_a_line_without_an_end_is_not_held_in_memory(
        self, gate: Gate, root: Path, line: int
    ) -> None:
        with (root / "endless.txt").open("wb") as file:
            file.write(b"x" * 2**17)
            file.truncate(2**28)
        tracemalloc.start()
        try:
            shown = await answered(gate, "read_file", path="../endless.txt", start_line=line)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert shown["text"] == {1: "x" * MAX_SHOWN, 2: ""}[line]
        assert not shown["complete"]
        assert peak < 8 * 2**20

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

    async def test_nothing_hidden_is_read_by_a_link_that_is(self, gate: Gate, root: Path) -> None:
        (root / "analysis" / ".mine").symlink_to(root / "other.txt")
        (root / "analysis" / "way").symlink_to(root / "analysis" / ".mine")
        for path in (".mine", "way"):
            assert "is hidden" in await refused(gate, "read_file", path=path)


@pytest.fixture
def deep(root: Path) -> Iterator[Path]:
    """A file below far more folders than one function may call another."""
    folder, made = root / "analysis" / "data", list[Path]()
    while len(made) < 1_200:
        folder = folder / "d"
        folder.mkdir()
        made.append(folder)
    file = folder / "deep.md"
    file.touch()
    yield file
    file.unlink()
    for each in reversed(made):
        each.rmdir()


class TestListing:
    async def test_a_file_however_deep_is_found(self, gate: Gate, root: Path, deep: Path) -> None:
        (root / "analysis" / "data" / "z.md").touch()
        listed = await answered(gate, "list_files", folder="data", pattern="*.md")
        assert [each["path"] for each in listed["files"]] == [
            "data/z.md",
            deep.relative_to(root / "analysis").as_posix(),
        ]

    async def test_files_come_with_sizes_and_hidden_ones_do_not(self, gate: Gate) -> None:
        listed = await answered(gate, "list_files", folder="..")
        assert listed["files"] == [
            {"path": "../other.txt", "bytes": 7},
            {"path": "here.ipynb", "bytes": 2},
            {"path": "note.md", "bytes": 14},
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

    async def test_a_file_is_replaced_as_it_was_read_and_kept(self, gate: Gate, root: Path) -> None:
        note, mine = root / "analysis" / "note.md", {"path": "note.md", "content": "mine"}
        assert "read_file it first" in await refused(gate, "write_file", **mine)
        await answered(gate, "read_file", path="note.md")
        before = note.read_text()
        note.write_text("the person's newer words")
        assert "changed since" in await refused(gate, "write_file", **mine)
        assert note.read_text() == "the person's newer words"
        note.write_text(before)
        answer = await answered(gate, "write_file", **mine)
        assert note.read_text() == "mine"
        assert (root / answer["before"]).read_text() == before

    async def test_its_own_file_and_an_empty_one_may_be_written_again(
        self, gate: Gate, root: Path
    ) -> None:
        (root / "analysis" / "a.md").touch()
        await answered(gate, "read_file", path="a.md")
        for text in ("1", "2"):
            await answered(gate, "write_file", path="a.md", content=text)
            assert (root / "analysis" / "a.md").read_text() == text

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

    @pytest.mark.parametrize("path", ["report.ipynb", "plain.txt", "../store/abc.dat"])
    async def test_a_notebook_that_is_a_link_is_not_written_by_any_name(
        self, root: Path, path: str
    ) -> None:
        (root / "store").mkdir()
        stored = root / "store" / "abc.dat"
        stored.write_text("{}")
        notebook = root / "analysis" / "report.ipynb"
        notebook.symlink_to("../store/abc.dat")
        (root / "analysis" / "plain.txt").symlink_to("report.ipynb")
        gate = Gate(file_tools(root, root / "analysis", notebook), timeout_s=60)
        await answered(gate, "read_file", path=path)
        assert "notebook" in await refused(gate, "write_file", path=path, content="mine")
        assert "notebook" in await refused(gate, "edit_file", path=path, old="{}", new="mine")
        assert stored.read_text() == "{}"

    async def test_another_link_that_is_named_as_a_notebook_is_not_written(
        self, gate: Gate, root: Path
    ) -> None:
        (root / "analysis" / "store.dat").write_text("{}")
        (root / "analysis" / "other.ipynb").symlink_to("store.dat")
        (root / "analysis" / "plain.txt").symlink_to("other.ipynb")
        for path in ("other.ipynb", "plain.txt"):
            await answered(gate, "read_file", path=path)
            assert "notebook" in await refused(gate, "write_file", path=path, content="mine")

    @pytest.mark.parametrize(
        "path", ["../.ockham/new.txt", "../record/new.txt", "../record/log.jsonl", "way/new.txt"]
    )
    async def test_a_record_that_is_a_link_is_not_reached_by_any_name(
        self, gate: Gate, root: Path, path: str
    ) -> None:
        (root / ".ockham").rename(root / "record")
        (root / ".ockham").symlink_to("record")
        (root / "analysis" / "way").symlink_to("../.ockham")
        await refused(gate, "read_file", path=path)
        await refused(gate, "write_file", path=path, content="mine")
        listed = await answered(gate, "list_files", folder="..", pattern="*.jsonl")
        assert listed["files"] == []
        assert [each.name for each in (root / "record").iterdir()] == ["log.jsonl"]
        assert (root / "record" / "log.jsonl").read_text() == "{}\n"

    async def test_a_link_within_the_workspace_is_followed(self, gate: Gate, root: Path) -> None:
        (root / "analysis" / "link.txt").symlink_to("../other.txt")
        (root / "analysis" / "up").symlink_to("..")
        await answered(gate, "read_file", path="link.txt")
        await answered(gate, "write_file", path="up/analysis/link.txt", content="mine")
        assert (root / "other.txt").read_text() == "mine"
        assert (root / "analysis" / "link.txt").is_symlink()

    async def test_links_that_go_round_are_refused(self, gate: Gate, root: Path) -> None:
        (root / "analysis" / "a").symlink_to("b")
        (root / "analysis" / "b").symlink_to("a")
        assert "is no path" in await refused(gate, "write_file", path="a/c", content="mine")

    @pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
    @pytest.mark.parametrize("mode", [0o600, 0o700, 0o755, 0o664])
    async def test_a_replaced_file_keeps_its_mode_and_the_copy_is_the_persons_alone(
        self, gate: Gate, root: Path, mode: int
    ) -> None:
        note = root / "analysis" / "note.md"
        note.chmod(mode)
        await answered(gate, "read_file", path="note.md")
        for name, given in (
            ("write_file", {"content": "mine"}),
            ("edit_file", {"old": "mine", "new": "yours"}),
        ):
            answer = await answered(gate, name, path="note.md", **given)
            assert note.stat().st_mode & 0o7777 == mode
            assert (root / answer["before"]).stat().st_mode & 0o7777 == 0o600

    async def test_what_a_killed_writer_left_beside_a_file_is_swept(
        self, gate: Gate, root: Path
    ) -> None:
        for name, path, given in (
            ("write_file", "new.md", {"content": "1"}),
            ("edit_file", "note.md", {"old": "two", "new": "2"}),
        ):
            for folder in (root / "analysis", root / "analysis" / "data"):
                (folder / ".parsimony-1-a.tmp").touch()
                os.utime(folder / ".parsimony-1-a.tmp", (0, 0))
            await answered(gate, name, path=path, **given)
            assert not (root / "analysis" / ".parsimony-1-a.tmp").exists()
            assert (root / "analysis" / "data" / ".parsimony-1-a.tmp").exists()

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


_EDITING = """
from pathlib import Path
from parsimony_kernel.toolbox.files import WorkspaceFiles
root = Path(place)
files = WorkspaceFiles(root, root)
wait()
for n in range(8):
    files.edit("n.txt", "END\\n", f"{me}-{n}\\nEND\\n")
"""

_WRITING = """
from pathlib import Path
from parsimony_kernel.toolbox.files import FileRefused, WorkspaceFiles
root = Path(place)
files = WorkspaceFiles(root, root)
wait()
for n in range(8):
    while True:
        text = files.read("n.txt", 1, 1000)["text"]
        try:
            files.write("n.txt", text + f"{me}-{n}\\n")
        except FileRefused:
            continue
        break
"""


class TestEditing:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("program", "text"), [(_EDITING, "END\n"), (_WRITING, "")], ids=["edits", "writes"]
    )
    def test_what_is_acknowledged_to_one_of_many_is_in_the_file(
        self, race: Callable[[str, Path], list[str]], tmp_path: Path, program: str, text: str
    ) -> None:
        pytest.importorskip("fcntl", reason="without locks they are not kept apart")
        (tmp_path / "n.txt").write_text(text)
        race(program, tmp_path)
        lines = (tmp_path / "n.txt").read_text().removesuffix(text).splitlines()
        assert sorted(lines) == sorted(f"n{me}-{n}" for me in range(8) for n in range(8))

    async def test_an_edit_does_not_make_known_what_others_wrote(
        self, gate: Gate, root: Path
    ) -> None:
        note = root / "analysis" / "note.md"
        await answered(gate, "read_file", path="note.md")
        note.write_text("one\ntwo\nthe person's\n")
        await answered(gate, "edit_file", path="note.md", old="two", new="2")
        assert "changed since" in await refused(gate, "write_file", path="note.md", content="mine")
        assert note.read_text() == "one\n2\nthe person's\n"

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


async def test_of_a_file_of_data_it_is_said_how_pandas_reads_it(gate: Gate, root: Path) -> None:
    (root / "analysis" / "rent.csv").write_text("flat;rent\na;1.200,50\n", encoding="utf-8")
    (root / "analysis" / "plain.csv").write_text("flat,rent\na,1200.5\n", encoding="utf-8")
    found = await answered(gate, "read_file", path="rent.csv")
    assert found["read_csv"] == {"sep": ";", "decimal": ",", "thousands": "."}
    assert "read_csv" not in await answered(gate, "read_file", path="plain.csv")
