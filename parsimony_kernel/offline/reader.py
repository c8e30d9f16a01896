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
from typing import Any

from parsimony_kernel.offline import code
from parsimony_kernel.offline import words as english
from parsimony_kernel.offline.code import Column, Filter, Query, Table, Transcript, Unclear, no_if
from parsimony_kernel.offline.words import Token, canonical, clause, fold, singular, spoken


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
        no_if(self.table.library, "library", self.table.name, self.table.library)
        self.query = query = Query(self.table.name)
        said = self.marked().split()
        # A new name is no word of the request.
        known = {*english.keywords(), *said * ("rename" in self.raw)}
        strange = [e for e in said if e[0].isalnum() and e not in (*self.marks, *known)]
        is_noun = len({*strange}) == 1 and clause("nouns", strange[0])
        if is_noun and self._called(strange[0]):
            mark = self.mark("T", self.table.name, self.raw[strange[0]])
            said, strange = [mark if e in strange else e for e in said], []
        self.text = text = " ".join(said)
        names = [c.name for c in self.table.columns]
        names[8:] = [f"{len(names[8:])} more"] * bool(names[8:])
        about = [*(self.raw.get(e, e) for e in strange[:1]), self.table.name, spoken(names)]
        no_if(strange, "unknown", *about)
        for pattern, row in english.rows():
            text = self._taken(pattern, row, text)
        self._left(text)
        self._complete()
        return query

    # -- marks -------------------------------------------------------------------------------

    def marked(self) -> str:
        """Write the request with its marks."""
        samples = [(c, sample) for c in self.table.texts for sample in c.samples]
        self.values = list(dict.fromkeys([*samples, *self._looked_up()]))
        said, at = list[str](), 0
        while at < len(self.tokens):
            mark, size = self._named(at, " ".join(said[-2:]))
            said += [mark] * bool(mark)
            at += size
        return " ".join(said)

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
            return "" if token.text in "?.:$€£" else token.text
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

    def _named(self, at: int, behind: str) -> tuple[str, int]:
        """Mark the longest name that begins with the token there, with its length."""
        for size in range(min(8, len(self.tokens) - at), 0, -1):
            piece = self.tokens[at : at + size]
            kinds = {each.kind for each in piece}
            text = " ".join(each.bare for each in piece)
            others = {"word", "date", "number" if size > 1 else "quoted"}
            is_name = kinds != {"number"} and kinds <= others
            after = "".join(each.bare for each in self.tokens[at + size : at + size + 1])
            if is_name and (mark := self._name(text, piece[0].kind == "quoted", behind, after)):
                return mark, size
        return self._plain(self.tokens[at]), 1

    def _name(self, text: str, is_quoted: bool, behind: str, after: str) -> str:
        """Mark what ``text`` names: the table, a column, a part of a date, a value, a month."""
        words, (before, _, behind) = fold(text), behind.rpartition(" ")
        low, parts = " ".join(words), english.table()["parts"].items()
        found = [part for part, row in parts if re.fullmatch(row.get("words", ""), low)]
        exact = self.table.called(text)
        is_key = low in english.keywords() and not is_quoted and not text[1:].isupper()
        is_named = any(fold(c.name) == words for c in exact)
        # Behind "temp_max of", "weather" is the table, whatever its columns are called.
        is_of = before[:1] == "C" and behind in ("of", "in", "from")
        is_own = is_of or not is_named or "rows" in self.raw
        if text.casefold() == self.table.name.casefold() and is_own:
            # Where a column is called so too, in the singular, its values may be meant as well.
            is_counted = behind in english.filler("counted") or after in ("per", "by")
            is_counted = is_counted and behind[:1] != "N" and "rows" not in (before, behind)
            if exact and is_counted and not (is_of or self._distinct(exact[0]) == 1):
                return self.mark("C", exact, text)
            return self.mark("T", self.table.name, text)
        is_plain = not (is_key or is_quoted or text in {v.strip() for _, v in self.values})
        if is_plain and (rows := self._rows(text, exact, found, behind)):
            return rows
        # All spellings of a value are meant.
        same = (english.spelling(text), singular(english.spelling(text)))
        values = [pair for pair in self.values if english.spelling(pair[1]) in same]
        # The total of a column, where a column is called total as well.
        is_count = clause("counts", f"{low} {after}")
        is_total = is_key and english.aggregate(low) and self.table.nearly(fold(after))
        # A column or a value that is called like a word of the request.
        about = [c.name for c in exact if fold(c.name) == words] + [c.name for c, _ in values]
        is_said = is_quoted or is_count or is_total or english.aggregate(behind)
        is_word = not is_said and clause("words", f"{before} {behind}|{low}|{after}")
        is_word |= low == "time" and behind == "over" and not any(c.is_time for c in exact)
        # "Total score" beside a column score may be its total.
        first, _, rest = low.partition(" ")
        is_word |= bool(english.aggregate(first) and self.table.called(rest) and not is_said)
        no_if(about and is_word, "named", text, *about)
        if exact and not (is_count or is_total):
            other = [c for c, v in values if v == text and is_named and c not in exact]
            is_its = behind[:1] == "C" and {*other} & {*self.marks[behind]}
            if other and (is_its or is_of or behind in ("is", "=", "==")):
                return self.mark("V", values, text)
            is_column = behind in ("by", "per", "rename") or english.aggregate(behind)
            no_if(other and not is_column, "both", text, *(c.name for c in [*other[:1], *exact]))
            return self.mark("C", exact, text)
        if found:
            return self.mark("P", found[-1], text)
        is_row = low in english.filler("rows")
        if (is_key and not is_row) or len(text) < 3:
            written = [c for c, value in values if value == text]
            values = [pair for pair in values if pair[0] in written]
        owners, owner = [c for c, _ in values], [c.name for c, _ in values[:1]]
        # "In" behind another column is no value, whatever a column of directions holds.
        is_apart = behind != "is" and not (behind[:1] == "C" and {*owners} & {*self.marks[behind]})
        if is_key and is_apart and not {*owners} & {*self.table.called(after)}:
            no_if(owners and (text != low or is_row), "value", text, *owner, "a word")
            owners = []
        partly = [] if is_key or is_quoted else self.table.nearly(words)
        measures = [c.name for c in partly if c.is_measure]
        if measures and not english.aggregate(behind):
            no_if(owners, "value", text, *owner, f"the column {spoken(measures, 'or')}")
        month = next((i for i, m in enumerate(english.MONTHS) if low in (m, m[:3])), 0)
        is_date = self.table.times[:1] and self.table.times[0].kind == "date"
        no_if(month and after.isdigit(), "month", text)
        if month and is_date and (low != "may" or behind in english.filler("months")):
            named = [c.name for c in self.table.texts if c in owners or c.name.lower() == "month"]
            no_if(named, "value", text, *named[:1], "a month")
            return self.mark("M", [(code.part_of(self.time(text), "month_name"), month)], text)
        if owners and not measures:
            return self.mark("V", values, text)
        return self.mark("C", partly, text) if partly else ""

    def _rows(self, text: str, exact: Sequence[Column], parts: Sequence[str], behind: str) -> str:
        """Mark what ``text`` counts: the rows that are called so."""
        mine, named = (tuple(map(singular, fold(each))) for each in (text, self.table.name))
        first, is_plural = self.table.columns[0], fold(text) != mine
        stem = tuple(singular(w) for w in fold(first.name) if w not in english.filler("codes"))
        is_number = "int" in first.dtype and is_plural and fold(text) != fold(first.name)
        is_id = mine == stem and not parts and (first.is_code or is_number)
        # Loans of `library_loans` are numbered by "loan".
        is_own = mine == named[-1:] and "int" in exact[0].dtype if exact else False
        plain = [c for c in exact if mine == fold(c.name) and (is_own or not c.is_measure)]
        is_one = any(self._distinct(c) == 1 for c in ([first] if is_id else plain[:1] * is_plural))
        if is_id and is_plural and not is_one and behind not in ("different", "distinct"):
            is_one = self._called(text, f"different {first.name}")
            count = "" if behind in ("many", "of", "count") else "number of "
            if not is_one:
                return f"{count}different {self.mark('C', [first], text)}"
        is_called = is_one or (not (exact or is_id) and mine in (named, named[-1:]))
        return self.mark("T", self.table.name, text) if is_called else ""

    def _called(self, word: str, other: str = "something else") -> bool:
        """Ask whether ``word`` is what the rows are called."""
        question = f"What are the {word!r} of `{self.table.name}`?"
        is_so = self.turn.choose(question, ["its rows", other], holds=True) == "its rows"
        self.query.notes += [f"Read {word!r} as its rows"] * is_so
        return is_so

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
        is_other = column.kind == "year" and not named and fold(column.name) != ("year",)
        self.query.notes += [f"Read {why!r} as {column.name}"] * is_other
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
            if many := said.get("many"):  # which the next row counts
                is_rows = self._called(self.raw[many], f"different {self.pick(many).name}")
                return "number of rows" if is_rows else f"number of different {many}"
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
        if word == "from" and parts != {"D"}:
            choices = [f"{each} {self.raw[marks[0]]}" for each in ("in", "since")]
            word = self.turn.choose(f"{spoken(choices, 'or')}?".capitalize(), choices).split()[0]
        no_if([*values] != sorted(values), "unused", *(self.raw[mark] for mark in marks[:1]))
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
        for column, values in meant.items():
            no_if(len({*values}) < len(values), "parts")
            self.query.keep(Filter(column, "not in" if "not" in said else "in", tuple(values)))
            is_many = len({str(v).strip().casefold() for v in values}) > 1
            self.compared += [column] if is_many and not (either or "not" in said) else []
        return True

    # -- what the slots come to ----------------------------------------------------------------

    def _complete(self) -> None:
        """Give the columns that no row took their part, check that all fits, ask what is open."""
        query, compared = self.query, self.compared
        used = {c.base for c in (*query.groups, *(f.column for f in query.filters))}
        bare = [c for c in self.bare if c != query.sort]
        is_group = query.agg or query.groups or query.window or query.share or query.do
        if is_group or query.chart or len(bare) == 1:
            # Beside a value its column says nothing.
            bare = [c for c in bare if c.is_measure or c.flags or c not in used]
        for column in (c for c in bare if c.flags):
            self.query.keep(Filter(column, "true"))
        bare = [c for c in bare if not c.flags]
        no_if(query.any_of and len(query.filters) != 2, "parts")
        numbers, others = ([c for c in bare if c.is_measure is kind] for kind in (True, False))
        is_open = len(bare) == 1 and numbers and (query.filters or numbers[0].made_of)
        if query.do not in ("", "aggregate"):
            no_if(query.columns and bare, "unused", *(c.name for c in bare[:1]))
            query.columns = query.columns or bare
            query.groups = [*(c for c in compared if c not in query.groups), *query.groups]
        elif is_group or query.chart or (is_open and not query.sort):
            self._group(numbers, others)
        else:
            no_if(compared and {"vs", "versus"} & {*self.raw}, "nothing", self.table.name)
            is_shown = re.match(english.table()["clauses"]["shows"], self.text)
            no_if(bare and not is_shown, "unused", *(c.name for c in bare[:1]))
            bare = [c for c in self.bare if c in bare or c == query.sort]
            query.do, query.columns = "rows", query.columns or bare
        self._check()
        if query.do == "aggregate":
            if query.chart or query.window or "over time" in self.text:  # which comes first
                query.groups.sort(key=lambda c: not c.is_time)
            self._compute()

    def _group(self, numbers: list[Column], others: list[Column]) -> None:
        """Numbers by groups, or of everything; or their share, which must be clear of what."""
        query, kept = self.query, len(self.query.filters)
        no_if(query.do and not (query.agg or query.columns or numbers), "nothing", self.table.name)
        no_if(others and (query.groups or not query.chart), "unused", *(c.name for c in others[:1]))
        query.do = "aggregate"
        if query.window or (query.chart == "line" and not (query.groups or others)):
            # It runs along the time, for each of the other groups.
            is_along = any(g.is_time for g in query.groups)
            # Filters may leave gaps, which a growth must not bridge.
            is_other = query.filters or (query.groups and not is_along)
            # Years that are numbers are no groups of their own.
            is_number = any(g.kind == "number" for g in query.groups)
            no_if(is_number or (query.window == "growth" and is_other), "parts")
            query.groups += [] if is_along else [self.time("time")]
        query.groups += [each for each in others if each not in query.groups]
        own = {group.base for group in query.groups}
        # "By zone for cash and card" may be of both together, or of each.
        is_apart = query.chart or any(g.is_time for g in query.groups) or not own
        is_pooled = {"combined", "together"} & {*self.raw} or not is_apart
        no_if({c.base for c in self.compared} - own and is_pooled, "parts")
        query.groups = [*(c for c in self.compared if c.base not in own), *query.groups]
        is_unused = query.columns or query.agg == "count"
        no_if(numbers and is_unused, "unused", *(c.name for c in numbers[:1]))
        query.columns = query.columns or numbers
        of = [f.column.base for f in query.filters if "missing" not in f.op]
        # "Share of the electric cars by zone": of all cars of each zone.
        is_mixed = query.columns or own & {*of} or any(c.is_time for c in of)
        is_said = query.share == "within" or clause("within", self.text)
        is_within = bool(own and kept and is_said and not is_mixed)
        query.share = query.share and ("within" if is_within else "whole")
        is_of_all = is_within or bool(query.groups) != bool(kept)
        is_of_all = is_of_all and (kept < 2 or query.any_of) and not query.groups[1:]
        is_clear = is_of_all and not others and query.agg in ("", "count", "sum")
        # The share of a column of 0 and 1 may be that of each group's rows.
        is_clear = is_clear and not any(
            {*c.samples} in ({"0"}, {"1"}, {"0", "1"}) for c in query.columns
        )
        no_if(query.share and (query.window or not is_clear), "share")

    def _check(self) -> None:
        """Every slot is of use, and something was asked."""
        query = self.query
        is_single = query.do == "aggregate" and not query.groups
        kind = english.table()["kinds"]["number" if is_single else query.do]
        most = kind.get("draws", len(query.columns))
        no_if(len(query.columns) != most, "draw", most)
        texts = [c.name for c in query.columns if c.kind not in ("number", "year")]
        is_other = query.ascending or {g.kind for g in query.groups} - {"text", "boolean"}
        no_if(query.text and is_other, "parts")
        no_if("draws" in kind and query.do != "rename" and texts, "compute", *texts[:1])
        is_sorted = query.sort and query.sort.kind not in ("text", "boolean")
        is_ranked = is_sorted or (query.do == "aggregate" and (query.agg or query.columns))
        no_if(query.limit and query.do in ("rows", "aggregate") and not is_ranked, "rank")
        no_if(
            query.limit is not None and (query.limit < 1 or query.limit % 1), "unused", query.limit
        )
        no_if(query.chart and is_single, "chart")
        no_if(query.limit and query.do == "aggregate" and len(query.groups) != 1, "parts")
        signs = {t.text for t in self.tokens} & {*"$€£"}
        used = [f.column for f in query.filters if f.op[0] in "<>=b"] or query.columns
        same = {"", *signs, *map(english.table()["spellings"]["money"].get, signs)}
        other = [c.name for c in used if signs and c.unit.lower() not in same]
        no_if(other, "money", *other[:1])
        is_along = query.window or query.chart in ("line", "area")
        # Groups beside a time have no order of their own.
        is_hue = any(g.is_time for g in query.groups)
        texts = [g.name for g in query.groups if g.is_calendar or (g.is_unordered and not is_hue)]
        no_if(is_along and texts, "compute", *texts[:1])
        # A month has its year; "per year by start" names the date that the year is of.
        for each in [g for g in query.groups if g.part in ("", "year")]:
            others = [g for g in query.groups if g.base == each.base and g.part]
            if any(g.part != each.part and (not each.part or g.kind != "cycle") for g in others):
                query.groups.remove(each)
        keys = {query.window * g.base.is_time or g.name for g in query.groups}
        no_if(len(keys) < len(query.groups), "parts")
        # Beside other dates, "in March by start time" may name the date that March is of.
        dated = {f.column.base for f in query.filters if f.column.part} & {*query.groups}
        no_if(dated and self.table.times[1:], "parts")
        slots = {slot for each in english.table()["kinds"].values() for slot in each}
        for slot in slots & {*vars(query)}:
            value = getattr(query, slot)
            size = len(value) if isinstance(value, list) else bool(value)
            no_if(size > kind.get(slot, 0), "parts")
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
            no_if(query.window and not query.agg, "unused", query.window)
            is_said = clause("rows", self.text) or query.filters or query.agg or self.bare
            no_if(not is_said, "nothing", self.table.name)
            is_amount = {*fold(self.table.name)} & english.filler("amounts") and not query.filters
            is_open = is_amount or any(g.is_measure for g in query.groups)
            no_if(is_open and not query.agg, "counted", self.table.name)
            query.agg = query.agg or "count"
        elif not query.agg and (query.share or query.window == "cumulative"):
            query.agg = "sum"
        elif not query.agg:
            along = next((g for g in query.groups if g.is_time and not g.part), None)
            is_date = along is not None and along.kind == "date"
            is_over = is_date and not query.chart and "over time" in self.text
            drawn = query.chart in ("line", "auto") or is_over
            drawn = drawn and not (query.window or query.limit)
            if along and drawn and (query.groups[1:] or self._distinct(along) == 1):
                query.do, query.chart = "line", "line"
            else:
                query.agg = code.function_of(query, self.turn)
        is_counted = query.agg in ("", "count") and not re.search("differ|distinct|uniq", self.text)
        if query.columns == query.groups and is_counted:
            query.agg, query.columns = "count", []
        years = [c.name for c in query.columns if c.kind == "year"]
        no_if(query.agg == "sum" and years, "compute", *years)
        query.ascending |= query.agg == "min" and not (query.limit or query.text)
