"""The text of a summary: the moods of its sentences, and what is set apart in them.

Patterns only, for English and German; what they find is judged where claims are looked for.
"""

import re

FENCED = re.compile(r"```[ \t]*[A-Za-z][^\n]{0,80}\n.*?(?:```|\Z)", re.DOTALL)
SUPPOSED = re.compile(
    r"\b(?:could|would|can|may|might|should|shall|if|unless|whether|next step|suggest\w*|try"
    r"|consider\w*|for example|such as|want|ready to|könnte\w*|kann|können|würde\w*|sollte\w*"
    r"|wenn|falls|ob|möchte\w*)\b|\be\.g\.|\bz\. ?B\."
    # What the person is told to do has not been done.
    r"|(?:^\W{0,8}|\b(?:please|just|then|bitte)\s+|,\s+)"
    r"(?:run|rerun|use|call|execute|type|pass|ask|führen?|rufen?|nutzen?|verwenden?)\b",
    re.IGNORECASE,
)
EARLIER = re.compile(
    r"\b(?:already|earlier|previous(?:ly)?|before|bereits|schon|früher|zuvor)\b", re.IGNORECASE
)

SPAN = re.compile(r"(?<!`)(`{1,2})([^`\n]{1,200})\1(?!`)")
_SUFFIXES = r"csv|tsv|parquet|feather|xlsx?|jsonl?|html|png|svg|pdf|pkl|arrow|geojson"
FILE = re.compile(
    rf"(?<![\w./\\~-])[\w./\\~-]{{0,200}}\w\.(?:{_SUFFIXES})(?![\w-]|\.\w)", re.IGNORECASE
)
