"""Words that name a value of the data: found in samples, looked for, or asked about."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from parsimony_kernel.offline.analysis import Keep
from parsimony_kernel.offline.columns import near_values, same_value
from parsimony_kernel.offline.missing import STOP, Declined
from parsimony_kernel.offline.resolve.reading import Reading
from parsimony_kernel.offline.resolve.subject import MAX_CHOICES, Subject
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import singular, spoken


def find_value(
    subject: Subject, text: str, pool: Sequence[Column], reading: Reading, *, demanded: bool
) -> tuple[Column, list[str]] | None:
    """The column that holds the value ``text``, and the value as it is written there."""
    if pool and pool[0].is_date:
        raise Declined(
            f"{text!r} is not read as a date.", [f"{text!r} is no year and no ISO date"],
            ["Write dates like 2012-06-30, months like June 2012, or a year."],
        )  # fmt: skip
    found = holding(text, pool, {c.name: c.samples for c in pool})
    looked = subject.known.values.get(text.casefold())
    question = f"What should {text!r} stand for in `{subject.table.name}`?"
    answered = _answered_value(subject.known.answers.get(question, ""), pool)
    if answered is not None:
        return answered
    if len(found) != 1:
        if looked is None:
            if subject.known.settled:
                return (pool[0], [text]) if pool else None
            if not pool:
                raise Declined(
                    f"`{subject.table.name}` has no text column in which to look for {text!r}.",
                    [f"no column can hold {text!r}"],
                )
            subject.wanted.append(text)
            return None
        found = holding(text, pool, looked)
    if len(found) == 1:
        column, values = found[0]
        if not any(same_value(text, v) for v in values):
            reading.notes.append(f"I took {text!r} to mean {values[0]!r}")
        return column, values
    if found:
        options = {f"{c.name} is {v[0]}": (c, v) for c, v in found}
        return options[subject.choose(question, list(options), "Several columns hold it.")]
    near = near_in(text, pool, looked or {})
    if demanded and not near:
        few = {c.name: list((looked or {}).get(c.name, ())) for c in pool}
        shown = [f"{name} holds {spoken(values[:6])}" for name, values in few.items() if values][:3]
        near = {
            f"{name} is {v}": (other, [v])
            for name, values in few.items()
            if (other := subject.table.column(name)) is not None and len(values) <= 12
            for v in values[:MAX_CHOICES]
        }
        context = f"No column holds it. {'; '.join(shown)}." if shown else "No column holds it."
    else:
        context = "No column holds exactly this; these come near."
    options = dict(list(near.items())[:MAX_CHOICES])
    return options[subject.choose(question, [*options, STOP], context)]


def _answered_value(reply: str, pool: Sequence[Column]) -> tuple[Column, list[str]] | None:
    for column in pool:
        prefix = f"{column.name} is "
        if reply.startswith(prefix):
            return column, [reply.removeprefix(prefix)]
    return None


def near_in(
    text: str, pool: Sequence[Column], looked: Mapping[str, Sequence[str]]
) -> dict[str, tuple[Column, list[str]]]:
    """The known values that come near ``text``, as choices."""
    return {
        f"{c.name} is {v}": (c, [v])
        for c in pool
        for v in near_values(text, [*looked.get(c.name, ()), *c.samples])
    }


def keep_value(subject: Subject, text: str, reading: Reading) -> None:
    """Keep the rows that hold a value named beside the measure: "the price of A and B"."""
    found = find_value(subject, text, subject.searched(), reading, demanded=True)
    if found is None:
        return
    for index, keep in enumerate(reading.keeps):
        if keep.column == found[0] and keep.op == "in" and keep.beside:
            values = tuple(dict.fromkeys([*keep.values, *found[1]]))
            reading.keeps[index] = replace(keep, values=values)
            return
    reading.keeps.append(Keep(found[0], "in", tuple(found[1]), beside=True))


def explain(subject: Subject, extra: Sequence[str], reading: Reading) -> None:
    """Words beside a column's name must be a value of the data, or be asked about."""
    words = [w for w in extra if not subject.is_noun(w)]
    if not words:
        return
    keep_value(subject, " ".join(words), reading)


def holding(
    text: str, pool: Sequence[Column], values: Mapping[str, Sequence[str]]
) -> list[tuple[Column, list[str]]]:
    """The columns among whose known values is ``text``, with the value as it is written."""
    found = []
    for column in pool:
        known = dict.fromkeys(values.get(column.name, ()))
        if same := [v for v in known if same_value(text, v)]:
            found.append((column, same))
    if found:
        return found
    # A plural names the same value; anything further away is a question.
    one = singular(text.casefold())
    for column in pool:
        known = dict.fromkeys(values.get(column.name, ()))
        if alike := [v for v in known if len(v) > 2 and singular(v.casefold()) == one]:
            found.append((column, alike))
    return found
