"""Time to look a summary's numbers up in the results of a run.

``python -m benchmarks.groundedness`` prints the median CPU time of 20 checks of a summary of eight
sentences, half of its numbers true and half invented, against 5, 50 and 500 KB of tables.
"""

import random
import statistics
import time

from parsimony_kernel.gate.groundedness import Results, unsupported

REGIONS = ("north", "south", "east", "west", "center", "coast", "hills", "islands")


def results(size: int, source: random.Random) -> list[str]:
    """Printed tables of ``size`` characters in all, at most 20 KB each."""
    texts: list[str] = []
    while (left := size - sum(map(len, texts))) > 0:
        lines = ["          orders     revenue   weight"]
        while sum(map(len, lines)) < min(left, 20_000):
            name = f"{source.choice(REGIONS)}{len(lines):03}"
            numbers = source.randrange(999), source.uniform(0, 1e5), source.uniform(0, 99)
            lines.append(f"{name:10}{numbers[0]:6}{numbers[1]:12.2f}{numbers[2]:9.3f}")
        texts.append("\n".join(lines))
    return texts


def summary(texts: list[str], source: random.Random) -> str:
    """Eight sentences, each with a number of the newest table and one from nowhere."""
    rows = [line.split() for line in texts[-1].splitlines()[1:40]]
    told = source.sample(rows, min(8, len(rows)))
    return " ".join(
        f"Revenue in {name} is {revenue}, which is {source.uniform(0, 100):.2f} % of the total."
        for name, _, revenue, _ in told
    )


def main() -> None:
    for size in (5_000, 50_000, 500_000):
        source = random.Random(size)
        texts = results(size, source)
        text = summary(texts, source)
        seconds = []
        for _ in range(20):
            started = time.process_time()
            marks = unsupported(text, Results(texts))
            seconds.append(time.process_time() - started)
        print(
            f"{size:8,} characters: {1000 * statistics.median(seconds):6.1f} ms, {len(marks)} marks"
        )


if __name__ == "__main__":
    main()
