"""A diff in lines, for people."""

from collections.abc import Sequence

from parsimony_kernel.lineage.diff import BindingDifference, Diff, ItemsDifference
from parsimony_kernel.lineage.frame_difference import MOST_SHOWN, FrameDifference

_MOST_NAMES = 40


def told(diff: Diff) -> list[str]:
    """``diff`` in lines, for people."""
    if not diff:
        return ["Nothing that it did to the variables is left to tell."]
    lines: list[str] = []
    for each in diff.bindings[:_MOST_NAMES]:
        lines += _lines(each)
    more = len(diff.bindings) - _MOST_NAMES
    return [*lines, f"And {more} more."] if more > 0 else lines


def _lines(found: BindingDifference) -> list[str]:
    match found.how:
        case "added":
            return [f"+ {found.name}: {found.after}"]
        case "deleted":
            return [f"- {found.name}: {found.before}"]
    if not found.is_certain and (found.in_place or not found.before):
        return [f"? {found.name}: perhaps changed, for there was no copy"]
    if found.is_equal:
        return [f"~ {found.name}: bound anew, with the same content: {found.after}"]
    was_and_is = found.after if found.before == found.after else f"{found.before} → {found.after}"
    how = ", changed in place" if found.in_place else ""
    inside: list[str] = []
    match found.inside:
        case FrameDifference():
            inside = _frame_lines(found.inside)
        case ItemsDifference():
            inside = _item_lines(found.inside)
    return [f"~ {found.name}: {was_and_is}{how}", *(f"    {line}" for line in inside)]


def _frame_lines(found: FrameDifference) -> list[str]:
    lines = []
    for names, what in ((found.columns_added, "added"), (found.columns_removed, "removed")):
        if names:
            lines.append(f"{_plural('column', len(names))} {what}: {_some(names)}")
    lines += [f"column {was} is {now} now" for was, now in found.columns_renamed[:MOST_SHOWN]]
    lines += [f"column {name}: {was} → {now}" for name, was, now in found.dtypes[:MOST_SHOWN]]
    if found.rows_added or found.rows_removed:
        lines.append(f"rows: {found.rows_added:,} added, {found.rows_removed:,} removed")
    elif found.rows[0] != found.rows[1]:
        lines.append("The rows cannot be matched, so their cells are not compared.")
    if found.is_reordered:
        lines.append("rows in another order")
    shown = found.others[: 2 * MOST_SHOWN]
    lines += [f"{what}: {' → '.join(filter(None, (was, now)))}" for what, was, now in shown]
    if found.cells:
        lines.append(f"{found.cells:,} {_plural('cell', found.cells)} changed")
        lines += [
            f"  row {each.row}, column {each.column}: {each.before} → {each.after}"
            for each in found.first
        ]
        if found.cells > len(found.first):
            lines[-1] += " …"
    if not found.is_complete:
        lines.append(
            f"Not compared in full: {found.compared:,} of {found.common:,} cells, evenly spread."
        )
    return lines


def _item_lines(found: ItemsDifference) -> list[str]:
    counts = ((found.added, "added"), (found.removed, "removed"), (found.changed, "changed"))
    lines = [
        ", ".join(f"{count:,} {_plural('item', count)} {what}" for count, what in counts if count)
    ]
    for each in found.first:
        sign = "+ " if not each.before else "- " if not each.after else ""
        values = " → ".join(filter(None, (each.before, each.after)))
        where = f"{each.place}: " if each.place else ""
        lines.append(f"  {sign}{where}{values}")
    if found.is_reordered:
        lines.append("items in another order")
    if not found.is_complete:
        lines.append("Not compared in full: it is too big.")
    return [line for line in lines if line]


def _some(names: Sequence[str]) -> str:
    more = len(names) - 2 * MOST_SHOWN
    return ", ".join(names[: 2 * MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"
