"""What the built-in model understands, as the examples of its table of patterns."""

from parsimony_kernel.offline.marks import table

REAL_MODEL = (
    "This model is built in and rule-based. For anything else set a model, with its key in the "
    "environment: %agent model openai/gpt-5 (OPENAI_API_KEY), or %%agent --model NAME for one cell."
)


def examples() -> list[str]:
    """A request for each row of the table."""
    return [str(row["example"]) for row in table()["row"] if "example" in row]


def as_markdown() -> str:
    """The table of examples in Markdown."""
    rows = []
    for row in table()["row"]:
        if "example" in row:
            after = f"`{row['after']}`, then " if "after" in row else ""
            rows.append(f"| {after}`{row['example']}` | {row['says']} |")
    return "\n".join(["| a request | what it does |", "| --- | --- |", *rows])
