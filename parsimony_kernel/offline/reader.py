"""A request becomes a query: every word of it is accounted for, or the answer is no.

What stands in the data is recognised first: columns, values, tables, numbers, dates. Each becomes a
mark, a letter with a number, and the rows of ``patterns.toml`` take the marks and words out of the
request, one row after the other, and set slots. A word that nothing takes is not understood. Where
a mark or the slots leave something open a person is asked, and a slot that the query has no use for
is a no as well.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from parsimony_kernel.offline import code
from parsimony_kernel.offline import words as english
from parsimony_kernel.offline.code import Column, Filter, Query, Table, Transcript, Unclear, no_if
from parsimony_kernel.offline.words import Token, canonical, clause, fold, singular, spoken


class Piece(NamedTuple):
    """Words of a request that may be a name, and what stands around them."""

    text: str
    is_quoted: bool
    before: str
    behind: str
    after: str

    @property
    def low(self) -> str:
        """Its words, for comparing."""
        return " ".join(fold(self.text))

    @property
    def is_key(self) -> bool:
        """Whether the patterns have it as a word; one in capitals is a name."""
        return self.low in english.keywords() and not (self.is_quoted or self.text[1:].isupper())

    @property
    def is_of(self) -> bool:
        """Whether it says whose a column is: "temp_max of weather"."""
        is_column = self.before == "rows" or self.before[:1] == "C"
        return is_column and self.behind in ("of", "in", "from")


@dataclass
class Reader:
    """Reads one request about one table.

    Args:
        turn: what is known of the notebook, and what the person has replied.
        look: gives what an expression comes to on the data, ``None`` where that is kept back.
        marks: what the marks stand for, by their text.
        raw: the words and marks as they were written.
        values: the values that the request may name, each with its column.
        compared: columns of which several values are set side by side.
        bare: columns that no row took.
    """

    tokens: Sequence[Token]
    table: Table
    turn: Transcript
    look: Callable[[str, str], Any]
    query: Query = field(default_factory=Query)
    marks: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, str] = field(default_factory=dict)
    values: list[tuple[Column, str]] = field(default_factory=list)
    compared: list[Column] = field(default_factory=list)
    bare: list[Column] = field(default_factory=list)
    text: str = ""

    def read(self) -> Query:
        """Read the query. Raises ``Unclear``: a question only where one of its answers leads on."""
        try:
            return self._read()
        except Unclear as unclear:
            why = unclear
            for choice in unclear.choices:
                turn = replace(self.turn, replies={**self.turn.replies, unclear.text: choice})
                try:
                    Reader(self.tokens, self.table, turn, self.look).read()
                except Unclear as after:
                    why = after
                    if not after.choices:
                        continue
                raise unclear from None
            raise why from None

    def _read(self) -> Query:
        table = self.table
        no_if(table.library, "library", table.name, table.library)
        self.query = query = Query(table.name)
        samples = [(c, sample) for c in table.texts for sample in c.samples]
        self.values = list(dict.fromkeys([*samples, *self._looked_up()]))
        said, at = list[str](), 0
        while at < len(self.tokens):
            mark, size = self._named(at, *["", "", *said][-2:])
            said += [mark] * bool(mark)
            at += size
        # A new name is no word of the request.
        known = {*english.keywords(), *self.marks, *said * ("rename" in self.raw)}
        strange = [each for each in said if each[0].isalnum() and each not in known]
        names = [c.name for c in table.columns]
        names[8:] = [f"{len(names[8:])} more"] * bool(names[8:])
        about = [*(self.raw.get(e, e) for e in strange[:1]), table.name, spoken(names)]
        no_if(strange, "unknown", *about)
        self.text = text = " ".join(said)
        for pattern, row in english.rows():
            text = self._taken(pattern, row, text)
        self._left(text)
        self._complete()
        return query

    # -- marks -------------------------------------------------------------------------------

    def _looked_up(self) -> list[tuple[Column, str]]:
        """Look for the words in the texts of the table that are nothing else."""
        words = [t.bare if t.kind in ("word", "quoted") else "" for t in self.tokens]
        # "Entry" and "reading" may be values, "entries" are rows.
        others = {w for w in english.keywords() if w not in english.filler("rows") or w[-1] == "s"}
        others |= {name.casefold() for name in self.turn.tables()}
        # "Max" may be somebody's name, save at the beginning.
        known = ({word, word.casefold()} if at == 0 else {word} for at, word in enumerate(words))
        plain = [at for at, each in enumerate(known) if words[at] and not each & others]
        unknown = [at for at in plain if not self.table.nearly(fold(words[at]))]
        if not (unknown and self.table.texts):
            return []
        pieces = [" ".join(words[at : at + size]) for at in unknown for size in range(1, 5)]
        why = f"Look for {spoken([repr(words[at]) for at in unknown[:3]], 'or')}"
        look = code.text("values_like", self.table, list(dict.fromkeys(pieces))[:60])
        texts = {c.name: c for c in self.table.texts}
        return [(texts[name], v) for name, v in self.look(look, why) or () if name in texts]

    def _plain(self, token: Token) -> str:
        if token.kind == "number":
            value = float(token.text.replace(",", ""))
            no_if(re.fullmatch(r"-?[1-9]\d{0,2}\.\d{3}", token.text), "decimals", token.text)
            return self.mark("N", int(value) if value.is_integer() else value, token.text)
        if letter := {"quoted": "Q", "date": "D"}.get(token.kind):
            return self.mark(letter, token.bare)
        if token.low in english.filler("rows"):
            return "rows"
        if token.kind == "sign":
            return "" if token.text in "?.:" else token.text
        if token.text == "A" and token is not self.tokens[0]:
            return "A"  # it may be a value, and is no article
        self.raw.setdefault(token.low, token.text)
        return token.low

    def mark(self, letter: str, value: Any, words: str = "") -> str:
        """Make a new mark for ``value``, which the request calls ``words``.

        Args:
            letter: its kind. That of a column gets a second letter: whether it is a measure, a
                time or any other.
        """
        if letter == "C":
            kinds = {column.letter for column in value}
            letter = f"C{kinds.pop() if len(kinds) == 1 else 'k'}"
        mark = f"{letter}{len(self.marks) + 1}"
        self.marks[mark] = value
        self.raw[mark] = words or str(value)
        return mark

    def _named(self, at: int, before: str, behind: str) -> tuple[str, int]:
        """Mark the longest name that begins with the token there, with its length."""
        for size in range(min(8, len(self.tokens) - at), 0, -1):
            tokens = self.tokens[at : at + size]
            kinds = {each.kind for each in tokens}
            others = {"word", "date", "number" if size > 1 else "quoted"}
            if kinds == {"number"} or not kinds <= others:
                continue
            text = " ".join(each.bare for each in tokens)
            after = "".join(each.bare for each in self.tokens[at + size : at + size + 1])
            piece = Piece(text, "quoted" in kinds, before, behind, after)
            found = self._readings(piece)
            if letter := self._meant(piece, found):
                return self.mark(letter, found[letter], text), size
        return self._plain(self.tokens[at]), 1

    def _readings(self, piece: Piece) -> dict[str, Any]:
        """List what a piece may name, by the letter of its mark; a word of the request has none."""
        text, low, is_key = piece.text, piece.low, piece.is_key
        # "Total price" is a total, beside a column that is called total as well.
        is_total = is_key and english.aggregate(low) and self.table.nearly(fold(piece.after))
        columns = [] if is_total else self.table.called(text)
        values = self._values(piece, columns)
        if self._is_table(piece, columns, values):
            return {"T": self.table.name}
        part, month = "" if columns else english.part(low), self._month(piece)
        # A part of its name stands for a column. Beside a value it must be that of a measure.
        near = [] if is_key or piece.is_quoted or month else self.table.nearly(fold(text))
        near = [c for c in near if c.is_measure or not values]
        near += [c for c in self.table.texts if month and c.name.lower() == "month"]
        is_word = is_key and not (part or month or any(c.is_time for c in columns))
        found = {"C": columns or near, "V": values, "P": part, "M": month, "word": is_word}
        return {letter: meaning for letter, meaning in found.items() if meaning}

    def _values(self, piece: Piece, columns: Sequence[Column]) -> list[tuple[Column, str]]:
        """All spellings of a value; of a word, a column or an abbreviation the one written."""
        text, is_row = piece.text, piece.low in english.filler("rows")
        same = {english.spelling(text), singular(english.spelling(text))}
        values = [e for e in self.values if english.spelling(e[1]) in same and e[0] not in columns]
        if columns or (piece.is_key and not is_row) or len(text) < 3:
            values = [pair for pair in values if (pair[0], text) in values]
        return values

    def _month(self, piece: Piece) -> list[tuple[Column, int]]:
        """The month of any year that a piece names, where there are dates."""
        months = (at for at, name in enumerate(english.MONTHS) if piece.low in (name, name[:3]))
        month = next(months, 0)
        no_if(month and piece.after.isdigit(), "month", piece.text)
        is_month = piece.low != "may" or piece.behind in english.filler("months")
        if not (month and is_month and any(c.kind == "date" for c in self.table.times)):
            return []
        return [(code.part_of(self.time(piece.text), "month_name"), month)]

    def _meant(self, piece: Piece, found: dict[str, Any]) -> str:
        """Choose the reading that the words around it ask for, or refuse; empty for a word."""
        text, behind, low = piece.text, piece.behind, piece.low
        columns, owners = found.get("C", []), [c for c, _ in found.get("V", ())]
        beside = self.table.called(piece.after) + (self.marks[behind] if behind[:1] == "C" else [])
        # "Revenue in June" may be of a month, "in total" of no value.
        is_its = piece.is_of and not ({"P", "M"} & {*found} or ("word" in found and text == low))
        # "Late shifts" may be those where a column "late" is so.
        is_same = columns and fold(piece.after) == fold(self.table.name)
        is_its |= bool({*owners} & {*beside}) and not is_same
        # Rows without a value are missing, too.
        is_gap = low == "missing" and not piece.is_quoted
        if owners and not is_gap and (behind in ("is", "=", "==") or is_its):
            return "V"
        is_column = behind in ("by", "per", "which", "rename") or piece.after in ("is", "=", "==")
        if is_column or english.aggregate(piece.before if behind == "of" else behind):
            found = {k: v for k, v in found.items() if k in "CP"} or found
        elif (
            {"V", "word"} == {*found}
            and text == low
            and not (is_gap or low in english.filler("rows"))
        ):
            return ""
        elif not piece.is_quoted and (owners or any(fold(c.name) == fold(text) for c in columns)):
            # "Total score" beside a column score may be its total.
            first, _, rest = low.partition(" ")
            is_total = english.aggregate(first) and self.table.called(rest)
            around = f"{piece.before} {behind}|{low}|{piece.after}"
            found |= {"word": True} if is_total or clause("words", around) else {}
        names = {"C": columns, "V": owners}
        kinds = english.table()["readings"]
        about = [kinds[e].format(*(c.name for c in names.get(e, ()))) for e in found]
        no_if(about[1:], "named", text, spoken(about, "or"))
        return next(iter({*found} - {"word"}), "")

    def _is_table(self, piece: Piece, columns: Sequence[Column], values: Sequence[Any]) -> bool:
        """Whether a piece is the name of the table, or what its rows are called."""
        text, table = piece.text, self.table
        mine, named = (tuple(map(singular, fold(each))) for each in (text, table.name))
        is_same = any(fold(c.name) == fold(text) for c in columns)
        # Where a column is called so too, its values may be meant as well.
        is_counted = piece.behind in english.filler("counted")
        is_counted |= piece.after in ("per", "by") and piece.behind[:1] != "N"
        is_own = piece.is_of or not (columns and (is_same or is_counted))
        if text.casefold() == table.name.casefold() and is_own:
            return True
        if piece.is_key or piece.is_quoted or any(v.strip() == text for _, v in values):
            return False
        ids = self._ids(piece, columns)
        is_one = any(self._distinct(c) == 1 for c in ids)
        first = table.columns[0]
        is_many = first in ids and (first.is_code or first.is_measure) and not is_one
        no_if(is_many and piece.behind not in ("different", "distinct"), "counted", text)
        return is_one or (not (columns or ids) and mine in (named, named[-1:]))

    def _ids(self, piece: Piece, columns: Sequence[Column]) -> list[Column]:
        """The columns that may number the rows that a piece names: "orders" of order_no."""
        mine, first = tuple(map(singular, fold(piece.text))), self.table.columns[0]
        plural = [c for c in columns if mine == fold(c.name) != fold(piece.text)]
        stem = tuple(singular(w) for w in fold(first.name) if w not in english.filler("codes"))
        is_number = first.is_code or (first in plural and "int" in first.dtype)
        if mine == stem and is_number and not english.part(piece.low):
            return [first]
        return [c for c in plural if not c.is_measure]

    def _distinct(self, column: Column) -> float:
        """The number of different values of a column, by that of the rows that are kept."""
        look = code.text("distinct", column.base.of(code.text("masked", self.query)))
        return float(self.look(look, f"Look whether each {column.label} has one row") or 0)

    # -- looking and choosing ----------------------------------------------------------------

    def pick(self, mark: str, want: str = "") -> Column:
        """Return the column that is meant, of those that a mark may stand for."""
        listed, words = self.marks[mark], self.raw[mark]
        fit = [c for c in listed if want != "measure" or c.kind in ("number", "year", "boolean")]
        fit = [c for c in fit if want != "group" or not c.is_measure] or fit
        no_if(any(c.kind == "nested" for c in listed), "kind", words, "plain values")
        why = "text" if any(c.looks("number") for c in listed) else "kind"
        no_if(not fit, why, spoken(c.name for c in listed), "numbers")
        question = f"Which column of `{self.table.name}` do you mean by {words!r}?"
        column = self.one_of(question, fit, holds=True)
        if canonical(fold(words)) != canonical(fold(column.name)):
            # "Orders" are rows more likely than order_no, "units" no unit_price.
            is_many = singular(words.casefold()) in {*fold(column.plain)[:-1]} - {words.casefold()}
            is_number = want == "measure" or (want == "ranked" and column.kind == "number")
            no_if(is_number and (column.is_code or is_many), "counted", words)
            again = ", as before" * (len(fit) > 1 and question not in self.turn.replies)
            self.query.notes.append(f"Read {words!r} as {column.name}{again}")
        return column

    def time(self, why: str) -> Column:
        """Return the column of dates that is meant."""
        times = self.table.times
        no_if(not times, "time", self.table.name, why)
        # Beside dates a year of another thing may be meant.
        years = [c for c in self.table.columns if c.kind == "year" and c not in times]
        times = [*times, *years * bool(re.fullmatch(r"\d{4}|year", why))]
        named = [c for c in times if any(c in of for m, of in self.marks.items() if m[0] == "C")]
        column = self.one_of(f"Which date do you mean for {why!r}?", named or times)
        is_other = not (named or {*fold(column.name)} <= english.filler("dates"))
        of = "that of " if column.kind == "date" else ""
        self.query.notes += [f"Read {why!r} as {of}{column.name}"] * is_other
        return column

    def one_of(self, question: str, columns: Sequence[Column], *, holds: bool = False) -> Column:
        """Return the column that is meant, of those that it may be."""
        names = [c.name for c in columns]
        chosen = self.turn.choose(question, names, holds=holds) if names[1:] else names[0]
        return columns[names.index(chosen)]

    # -- patterns ----------------------------------------------------------------------------

    def _taken(self, pattern: re.Pattern[str], row: english.Row, text: str) -> str:
        def taken(found: re.Match[str]) -> str:
            # A name that stands for one slot in several branches is numbered.
            said = {re.sub(r"\d$", "", k): v for k, v in found.groupdict().items() if v}
            is_meant = found[0].strip() and self._take({**row, **said})
            return str(row.get("says", "~")) if is_meant else found[0]

        before = ""
        while before != text:
            before, text = text, " ".join(pattern.sub(taken, text).split())
        return text

    def _take(self, said: english.Row) -> bool:
        """Set the slots that a row and its words name; ``False`` where they are not meant."""
        query = self.query
        if "no" in said:
            raise Unclear(said["no"].format(said.get("word")))
        if "v" in said and not self._keep_values(said):
            return False
        if ("op" in said or "a" in said) and not self._keep(said):
            return False
        self._set(said)
        marks = re.findall(r"C\w\d+", said.get("cs", ""))
        is_any = query.agg == "nunique" or query.do in ("rename", "describe", "missing")
        query.columns += [self.pick(mark, "" if is_any else "measure") for mark in marks]
        if "pair" in said:
            pair = tuple(map(self.pick, re.findall(r"C\w\d+", said["pair"])))
            name = " - ".join(each.name for each in pair)
            self.bare.append(Column(name, "number", made_of=pair, how="({0} - {1})"))
        query.groups += [self.time("over time")] if "time" in said else []
        for group in self._groups(said.get("g", "") + said.get("unit", "")):
            is_many = group.dtype.startswith("float") and len(group.samples) > 4
            no_if(group.is_measure and is_many, "measure", group.name)
            query.groups += [group] if group not in query.groups else []
        if "sort" in said:
            no_if(query.sort, "parts")
            query.sort = self.pick(said["sort"], "ranked")
            query.sort = query.sort.base if query.sort.kind == "text" else query.sort
            code.no_text(query.sort)
            query.ascending = query.ascending or not (query.limit or "down" in said)
        return True

    def _set(self, said: english.Row) -> None:
        """Set the plain slots, those that are one thing only once."""
        query = self.query
        slots = {"ascending": "low" in said, **said.get("set", {})}
        given = [slot for slot in ("chart", "limit", "size") if slot in said]
        slots |= {slot: self.marks.get(said[slot], said[slot]) for slot in given}
        slots |= {"text": self.raw.get(said["text"], said["text"])} if "text" in said else {}
        # Any word for a function that is none of the table's counts rows.
        slots |= {"agg": english.aggregate(said["agg"]) or "count"} if "agg" in said else {}
        once = ["do", "agg", "limit", *["chart"] * ("chart" in said)]
        no_if(any(slots.get(slot) and getattr(query, slot) for slot in once), "parts")
        for slot, value in slots.items():
            setattr(query, slot, getattr(query, slot) or value)

    def _left(self, text: str) -> None:
        """Account for what no pattern took."""
        left = [word for word in text.split() if word not in english.filler("silent")]
        strange = [word for word in left if word not in (*self.marks, "and", "or", "~")]
        no_if(strange, "unused", " ".join(self.raw.get(word, word) for word in strange))
        for mark in (word for word in left if word in self.marks and word[0] != "T"):
            is_group = mark[0] == "P" and clause("adjective", self.raw[mark])
            no_if(not is_group and mark[0] != "C", "unused", self.raw[mark])
            self.query.groups += self._groups(mark) if is_group else []
            self.bare += [self.pick(mark)] if mark[0] == "C" else []
        no_if(re.search(english.table()["clauses"]["listed"], text), "parts")
        is_either = bool(re.search(r"(?:~|Cb\d+) or (?:~|Cb\d+)", " ".join(left)))
        no_if("or" in left and (not is_either or "~ and ~" in text), "parts")
        self.query.any_of = self.query.any_of or is_either

    def _groups(self, text: str) -> list[Column]:
        """The groups that marks stand for: columns, and parts of a date."""
        found = []
        # Behind "month of" stands the date whose part it is.
        text = re.sub(r"(P\d+) (?:of|in|from) (?:the )?Ct\d+", r"\1", text)
        for mark in re.findall(r"C\w\d+|P\d+", text):
            if mark[0] == "C":
                column = self.pick(mark, "group")
                # Dates in a column "month" may be any of a month.
                part = column.name.casefold()
                is_period = column.kind == "date" and clause("periods", part)
                found.append(code.part_of(column, part) if is_period else column)
            else:
                column, part = self.time(self.raw[mark]), self.marks[mark]
                is_day = part == "hour_name" and column.is_midnight
                no_if(is_day, "kind", column.name, "times of day")
                is_year = column.kind == "year" and part != "year"
                no_if(is_year, "time", self.table.name, self.raw[mark])
                found.append(code.part_of(column, part) if column.kind == "date" else column)
        return found

    def _keep(self, said: english.Row) -> bool:
        """Keep rows by a number, a year, a month, a day, or a span of them."""
        marks = [said[name] for name in "ab" if name in said]
        values = tuple(self.marks[mark] for mark in marks)
        word = str(said.get("op", "between" if "b" in said else "=="))
        # How much of a date is given: its year, its month or its day.
        parts = {"year" if m[0] == "N" else "MD"[self.marks[m].count("-") - 1] for m in marks}
        is_year = parts != {"year"} or all(1500 <= each <= 2100 for each in values)
        if not (is_year or "c" in said):
            return False
        column = self.pick(said["c"], "ranked") if "c" in said else self.time(self.raw[marks[0]])
        code.no_text(column)
        no_if("percent" in said and column.unit != "%", "kind", column.name, "percentages")
        is_of_time = "b" in said and parts != {"year"}
        if (len(parts) > 1 or not is_year) if column.is_time else is_of_time:
            return False
        # "total sales from 2022 to 2023" may be about the time.
        is_open = "b" in said and not column.is_time and self.table.times and is_year
        no_if(is_open, "span", column.name)
        if column.kind == "date":
            column = code.part_of(column, *parts) if parts else column
        elif marks:
            no_if(parts != {"year"}, "kind", column.name, "dates")
            no_if(column.kind not in ("number", "year"), "kind", column.name, "numbers")
        no_if(word == "from" and parts != {"D"}, "from", *(self.raw[mark] for mark in marks))
        no_if([*values] != sorted(values), "unused", *map(self.raw.get, marks[:1]))
        op = english.operators().get(word) or english.table()["spellings"]["dated"].get(word, word)
        self.query.keep(Filter(column, op, values))
        return True

    def _keep_values(self, said: english.Row) -> bool:
        """Keep the rows with a value, or drop them; several set side by side are groups."""
        owners = self.marks.get(said.get("c", ""), [])
        meant: dict[Column, list[str]] = {}
        for mark in re.findall(r"[VM]\d+", said["v"]):
            pairs = dict(p for p in self.marks[mark] if p[0] in owners or not owners)
            other = [self.raw[mark], *(c.name for c, _ in self.marks[mark][:1])]
            no_if("is" in said and not pairs, "other", owners and owners[0].name, *other)
            if not pairs:
                return False
            question = f"{self.raw[mark]!r} stands in several columns. Which one?"
            column = self.one_of(question, list(pairs))
            meant.setdefault(column, []).extend(v for c, v in self.marks[mark] if c == column)
        either = bool(re.search(r"[VM]\d+ (?:, )?or ", said["v"]))
        # "Adults and children" of two columns may be both at once, or each.
        is_mixed = "not" in said or not either or re.search(" (?:,|and) ", said["v"])
        no_if(len(meant) > 1 and is_mixed, "parts")
        self.query.any_of |= len(meant) > 1
        no = "not a value" if any(c.kind == "text" and c.made_of for c in meant) else "not in"
        for column, values in meant.items():
            no_if(len({*values}) < len(values), "parts")
            self.query.keep(Filter(column, no if "not" in said else "in", tuple(values)))
            is_many = len({str(v).strip().casefold() for v in values}) > 1
            self.compared += [column] if is_many and not (either or "not" in said) else []
        return True

    # -- what the slots come to ----------------------------------------------------------------

    def _complete(self) -> None:
        """Give the columns that no row took their part, check that all fits, ask what is open."""
        query = self.query
        slots = (query.do, query.agg, query.groups, query.window, query.share, query.chart)
        bare = self._open(is_computed=any(slots))
        no_if(query.any_of and len(query.filters) != 2, "parts")
        numbers = [c for c in bare if c.is_measure]
        is_number = len(bare) == len(numbers) == 1 and not query.sort
        if query.do not in ("", "aggregate"):
            no_if(query.columns and bare, "unused", *(c.name for c in bare[:1]))
            query.columns = query.columns or bare
            self._compare()
        elif any(slots) or (is_number and (query.filters or numbers[0].made_of)):
            self._group(numbers, [c for c in bare if not c.is_measure])
        else:
            no_if(self.compared and {"vs", "versus"} & {*self.raw}, "nothing", self.table.name)
            is_shown = re.match(english.table()["clauses"]["shows"], self.text)
            no_if(bare and not is_shown, "unused", *(c.name for c in bare[:1]))
            query.do = "rows"
            query.columns = query.columns or [c for c in self.bare if c in (*bare, query.sort)]
        self._check_slots()
        self._check_groups()
        self._check()
        if query.do == "aggregate":
            if query.chart or query.window or "over time" in self.text:  # which comes first
                query.groups.sort(key=lambda c: not c.is_time)
            self._compute()

    def _open(self, *, is_computed: bool) -> list[Column]:
        """The columns that no row took; one of yes and no keeps the rows that are so."""
        query = self.query
        bare = [c for c in self.bare if c != query.sort]
        if is_computed or len(bare) == 1:
            # Beside a value its column says nothing.
            used = {c.base for c in (*query.groups, *(f.column for f in query.filters))}
            bare = [c for c in bare if c.is_measure or c.flags or c not in used]
        for column in (c for c in bare if c.flags):
            query.keep(Filter(column, "true"))
        return [c for c in bare if not c.flags]

    def _compare(self) -> None:
        """Group by what is set side by side, where there is no other group."""
        own = {group.base for group in self.query.groups}
        others = [c for c in self.compared if c.base not in own]
        no_if(others and (own or others[1:]), "parts")
        self.query.groups += others

    def _group(self, numbers: list[Column], others: list[Column]) -> None:
        """Numbers by groups, or of everything; or their share, which must be clear of what."""
        query, kept = self.query, self.query.filters
        no_if(query.do and not (query.agg or query.columns or numbers), "nothing", self.table.name)
        no_if(others and (query.groups or not query.chart), "unused", *(c.name for c in others[:1]))
        query.do, query.groups = "aggregate", query.groups or others
        if query.window or (query.chart == "line" and not query.groups):
            # It runs along the time, for each of the other groups.
            is_along = any(g.is_time for g in query.groups)
            # Filters may leave gaps, which a growth must not bridge.
            is_other = kept or (query.groups and not is_along)
            # Years that are numbers are no groups of their own.
            is_number = any(g.kind == "number" for g in query.groups)
            no_if(is_number or (query.window == "growth" and is_other), "parts")
            query.groups += [] if is_along else [self.time("time")]
        self._compare()
        is_unused = query.columns or query.agg == "count"
        no_if(numbers and is_unused, "unused", *(c.name for c in numbers[:1]))
        query.columns = query.columns or numbers

    def _check_slots(self) -> None:
        """A share is of groups, or of rows that are kept; what is ranked is one order of rows."""
        query, kept, limit = self.query, self.query.filters, self.query.limit
        is_of_all = bool(query.groups) != bool(kept) and not query.groups[1:]
        is_of_all = is_of_all and (not kept[1:] or query.any_of)
        # The share of a column of 0 and 1 may be that of each group's rows.
        is_flag = any({*c.samples} <= {"0", "1"} for c in query.columns)
        is_clear = is_of_all and query.agg in ("", "count", "sum") and not is_flag
        no_if(query.share and (query.window or not is_clear), "share")
        is_sorted = query.sort and query.sort.kind not in ("text", "boolean")
        is_ranked = is_sorted or (query.do == "aggregate" and (query.agg or query.columns))
        no_if(limit and query.do in ("rows", "aggregate") and not is_ranked, "rank")
        no_if(limit is not None and (limit < 1 or limit % 1), "unused", limit)
        no_if(limit and query.do == "aggregate" and len(query.groups) > 1, "parts")

    def _check_groups(self) -> None:
        """No group says the same as another, and those along an axis have an order."""
        query, groups = self.query, self.query.groups
        # Groups beside a time have no order of their own.
        is_hue = any(g.is_time for g in groups)
        # Periods have digits, and some of them may have no rows.
        texts = [g.name for g in groups if g.is_calendar or (not is_hue and g.looks("digits"))]
        is_along = query.window or query.chart in ("line", "area")
        no_if(is_along and texts, "compute", *texts[:1])
        # A month has its year; "per year by start" names the date that the year is of.
        for each in [g for g in groups if g.part in ("", "year")]:
            others = [g for g in groups if g.base == each.base and g.part]
            if any(g.part != each.part and (not each.part or g.kind != "cycle") for g in others):
                groups.remove(each)
        keys = {query.window * g.base.is_time or g.name for g in groups}
        no_if(len(keys) < len(groups), "parts")
        # Beside other dates, "in March by start time" may name the date that March is of.
        dated = {f.column.base for f in query.filters if f.column.part} & {*groups}
        no_if(dated and self.table.times[1:], "parts")

    def _check(self) -> None:
        """Every slot is of use, and something was asked."""
        query = self.query
        is_single = query.do == "aggregate" and not query.groups
        no_if(query.chart and is_single, "chart")
        kinds = english.table()["kinds"]
        kind = kinds["number" if is_single else query.do]
        most = kind.get("draws", len(query.columns))
        no_if(len(query.columns) != most, "draw", most)
        texts = [c.name for c in query.columns if c.kind not in ("number", "year")]
        no_if("draws" in kind and query.do != "rename" and texts, "compute", *texts[:1])
        for slot in {slot for each in kinds.values() for slot in each} & {*vars(query)}:
            value = getattr(query, slot)
            size = len(value) if isinstance(value, list) else bool(value)
            no_if(size > kind.get(slot, 0), "parts")
        is_told = query.do == "head" and self.table.times
        query.notes += ["In the order of the rows, not of any date"] * bool(is_told)
        is_undrawn = any(g.is_time or g.part for g in query.groups)
        no_if(query.do in ("histogram", "box", "scatter") and is_undrawn, "parts")
        no_if(query.do == "rename" and query.text in [c.name for c in self.table.columns], "parts")
        is_part = query.do == "rows" and not clause("rows", self.text)
        no_if(is_part and clause("part", " ".join(t.low for t in self.tokens)), "whole")
        is_part = is_part and not (query.columns or query.filters or query.sort)
        no_if(is_part, "nothing", self.table.name)

    def _compute(self) -> None:
        """Find the function, by what there is in the table or by asking."""
        query = self.query
        no_if(query.agg not in ("", "count") and not query.columns, "nothing", self.table.name)
        no_if(query.window == "cumulative" and query.agg not in ("", "sum", "count"), "parts")
        if query.window == "rolling":  # over one row for each time, without a missing day
            time, why = query.groups[0], "Look whether each row is one time"
            is_one = not query.groups[1:] and time.part in ("", "day")
            is_even = is_one and self.look(code.text("is_even", query, time), why) is True
            no_if(not is_even, "rolling", time.label)
        elif not query.columns:
            self._count()
        elif not query.agg:
            along = next((g for g in query.groups if g.is_time and not g.part), None)
            is_line = query.chart in ("line", "auto") and not (query.window or query.limit)
            if query.share or query.window == "cumulative":
                query.agg = "sum"
            elif along and is_line and (query.groups[1:] or self._distinct(along) == 1):
                query.do, query.chart = "line", "line"
            else:
                query.agg = code.function_of(query, self.turn)
        years = [c.name for c in query.columns if c.kind == "year"]
        no_if(query.agg == "sum" and years, "compute", *years)
        query.ascending |= query.agg == "min" and not query.limit

    def _count(self) -> None:
        """Count the rows, where nothing else may be meant."""
        query, name = self.query, self.table.name
        no_if(query.window and not query.agg, "unused", query.window)
        is_said = clause("rows", self.text) or query.filters or query.agg or self.bare
        no_if(not is_said, "nothing", name)
        is_amount = {*fold(name)} & english.filler("amounts") and not query.filters
        is_open = is_amount or any(g.is_measure for g in query.groups)
        no_if(is_open and not query.agg, "counted", name)
        query.agg = query.agg or "count"
