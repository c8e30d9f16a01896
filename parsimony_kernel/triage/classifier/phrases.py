"""What the words of an error mean, where nothing structured does.

Only the terminal error is read, never a tool's output: that is data. A phrase is here when many
libraries word it so and none uses it for something else.
"""

import re
from dataclasses import dataclass

from parsimony_kernel.llm.faults import translate
from parsimony_kernel.triage.evidence import Evidence
from parsimony_kernel.triage.taxonomy import FailureType

# Errors of databases speak of functions, columns and constraints that are the database's.
DATABASE = frozenset(
    {
        *("DatabaseError", "OperationalError", "ProgrammingError", "DBAPIError", "MySQLError"),
        *("SQLAlchemyError", "PyMongoError", "RedisError", "OperationFailure", "Neo4jError"),
        *("CatalogException", "BinderException"),
    }
)


@dataclass(frozen=True)
class Phrase:
    """Words that mean ``type``, unless others stand beside them."""

    type: FailureType
    words: re.Pattern[str]
    unless: re.Pattern[str] | None = None
    of_databases: bool = False

    def says(self, seen: Evidence) -> bool:
        """Whether the error's words say it."""
        if seen.names & DATABASE and not self.of_databases:
            return False
        found = self.words.search(seen.words)
        return found is not None and not (self.unless and self.unless.search(seen.words))


def _any(*phrases: str) -> re.Pattern[str]:
    return re.compile("|".join(phrases), re.IGNORECASE)


_NAME = r"(?:[\"'`][^\"'`\n]{0,60}[\"'`]|[\w.:/$-]+)"
_GONE = (
    r"(?:not found|does not exist|doesn[’']t exist|is not (?:registered|recognized|defined)"
    r"|(?:is )?not available(?! right now| at the moment| today| until| yet))"
)

OVERFLOW = Phrase(
    FailureType.CONTEXT_OVERFLOW,
    _any(
        r"input is too long for (?:the )?requested model",
        r"too many tokens\b.{0,80}\b(?:prompt|input|cannot exceed)",
        r"longer than the maximum model length",
        r"exceeds? (?:the )?(?:available |model'?s? )?context (?:size|limit|window|length)",
        r"\bexceed context limit",
        r"\btokens\b.{0,60}\bmust be <=? ?\d",
        r"\b(?:prompt|input|messages?)\b[^.]{0,40}\b(?:too long|exceeds?)\b[^.]{0,40}\btokens\b",
    ),
)
REFUSED = Phrase(
    FailureType.CONSTRAINT_IGNORED,
    _any(
        r"\b(?:blocked|filtered|rejected) (?:by|due to) (?:the |a |an |our )?"
        r"(?:[\w ]{0,20})?(?:content (?:filter|management|polic)|guardrail|safety)",
        r"\bguardrail\b.{0,40}\b(?:intervened|tripwire|blocked|triggered)",
        r"\bcontent management policy\b",
        r"violat\w+ (?:the |our |an? )?(?:[\w-]+ )?(?:usage |content |safety )?polic(?:y|ies)\b",
        r"^forbidden (?:access|import|operation)\b",
        r"\b(?:response|output|answer) (?:was )?found to be (?:toxic|profane|unsafe)",
    ),
)
# A program in JavaScript says SyntaxError of an answer that is no JSON.
UNREADABLE = Phrase(
    FailureType.SCHEMA_MISMATCH,
    _any(
        r"\bunexpected (?:token|non-whitespace|identifier)\b.{0,80}\bJSON\b",
        r"\bunexpected end of JSON\b",
        r"\bmalformed[ _](?:function|tool)[ _]call\b",
    ),
)
SETTLED = Phrase(
    FailureType.UNKNOWN,
    _any(
        r"\bcertificate[_ ]verify[_ ]failed\b",
        r"\bauthentication failed\b|\bpermission denied\b|\baccess denied\b",
        r"\bnot authorized to\b|\bunable to locate credentials\b",
        r"\b(?:incorrect|invalid|wrong) (?:user ?name|login|password)\b",
        r"\b(?:invalid|incorrect|missing) api key\b|\bapi key not valid\b",
        r"\bcredit balance is too low\b|\binsufficient (?:quota|balance|credits?|funds)\b",
    ),
    of_databases=True,
)
DEADLINE = Phrase(
    FailureType.TIMEOUT,
    _any(
        r"\b(?:tool|cell|command|operation|workflow|execution|statement|query|task|action|step"
        r"|activity|job)\b[^.\n]{0,60}\b(?:timed out|timeout$)",
        r"\bstatement timeout\b",
        r"\b(?:maximum|max) (?:statement |query )?execution time exceeded",
        r"\bwas canceled\b.{0,20}\btimeout\b|\btimeout\b.{0,40}\band was cancell?ed",
        r"\bexceeded (?:the |its )?(?:time limit|deadline) of\b",
        r"\boperation exceeded time limit\b|\bcall exceeded \d+ ?m?s\b",
        r"\btimed out after \d",
        r"\btimeout exceeded: elapsed\b",
    ),
    unless=_any(
        r"\b(?:connect|read|write|socket|network|http|request|response|host|server)\w*"
        r" (?:operation )?timed? ?out",
        r"\bbytes received\b",
    ),
    of_databases=True,
)
PHRASES: tuple[Phrase, ...] = (
    Phrase(
        FailureType.WRONG_TOOL_CALLED,
        _any(
            r"\b(?:unknown|unrecognized|unregistered|nonexistent|no such) (?:tool|action)\b",
            rf"\b(?:tool|action)(?: with (?:the )?name| named)? {_NAME} (?:was |is |does )?{_GONE}",
            rf"\b(?:tool|action|function) {_NAME} (?:don[’']t exist|is not found|not found)\b",
            r"\bis not an? (?:valid|known|recognized|registered|supported) (?:tool|action)\b",
            r"\bno (?:such )?(?:tool|action|function) "
            r"(?:named|called|available|registered|with (?:the )?name)\b",
            r"^the method does not exist\b",
            r"\bnot among the (?:explicitly )?(?:allowed|available) tools\b",
            r"\bcall(?:ed)? tool\b.{0,60}\bnot in (?:the )?request\b",
            r"\b(?:tool|action)[_ ]not[_ ]found\b|\bunknown_(?:tool|action)\b",
            r"\bnot (?:\w+ )?in (?:the |its )?(?:tool|action)s? (?:manifest|registry|list|catalog)",
            r"\b(?:is not|isn[’']t) (?:one of|among|in) the (?:available|registered|allowed) tools",
            rf"\bfunction {_NAME} not found in plugin",
            r"\btool name\b.{0,40}\bnot (?:defined|known|found|recognized|registered)\b",
            r"\bunavailable tool\b|^method not found\b|: method not found\b|^unknown method\b",
        ),
        unless=_any(r"\bin (?:the |your )?\$?PATH\b", r"\binstall(?:ed)?\b", r"\bcommand[- ]line"),
    ),
    DEADLINE,
    Phrase(
        FailureType.EXTERNAL_FAULT,
        _any(
            r"\btoo many (?:requests|clients|connections|api requests|users)\b",
            r"\brate[- ]?limit(?:s|ed)?\b[^.\n]{0,40}\b(?:exceeded|reached|hit)\b",
            r"\b(?:exceeded?|reached|hit) (?:the |your |our |its )?(?:\w+ )?rate[- ]?limits?\b",
            r"\brate limited\b|\bratelimited\b|\brequest rate is large\b",
            r"\b(?:is|are|currently|temporarily) (?:currently )?(?:overloaded|unavailable)\b",
            r"\bservice (?:is )?(?:temporarily )?unavailable\b|\bbad gateway\b",
            r"\b(?:gateway|upstream request) time-?out\b",
            r"^overloaded\W*$|\bmessage[\"']: [\"']overloaded[\"']",
            r"\binternal server error\b|\bserver (?:had|encountered) an (?:internal )?error\b",
            r"\bdatabase system is (?:starting up|shutting down|in recovery)",
            # The network's exit codes of curl.
            r"^curl: \((?:6|7|28|52|55|56)\)",
            r"\bconnection (?:was |has been )?(?:reset|refused|aborted|broken|closed|dropped|lost"
            r"|timed out|timeout|error|closed unexpectedly|unexpectedly closed)",
            r"\b(?:server|peer|remote end) (?:has )?(?:closed|dropped|disconnected)\b",
            r"\bserver (?:has gone away|disconnected)\b|\bsocket hang ?up\b",
            r"\b(?:failed|unable|cannot|can[’']t|couldn[’']t|could not) (?:to )?"
            r"(?:establish|connect|resolve)\b",
            r"\bname or service not known\b|\bname resolution\b|\bgetaddrinfo (?:failed|ENOTFOUND)",
            r"\bERR_(?:NAME_NOT_RESOLVED|CONNECTION_\w+|INTERNET_DISCONNECTED|TIMED_OUT)\b",
            r"\bnetwork is unreachable\b|\bno route to host\b|\bbroken pipe\b",
            r"\b(?:read|write|connect|connection|request|response|socket|handshake)\w*"
            r"(?: operation)? (?:timed out|time-?out)\b",
            r"\btimed out[\s.!)]*$|\btimeout was reached\b",
            r"\blost connection\b|\bthrottl(?:ed|ing)\b",
            r"\btimed out (?:while )?(?:waiting for|receiving)\b|\btimeout \d+ms exceeded\b",
            r"\btimeout of [\d.]+ ?m?s(?:ec\w*)? exceeded\b",
            r"\bdatabase (?:table )?is locked\b|\bdeadlock (?:detected|found)\b",
            r"\block wait timeout\b|\bconflicting lock\b|\bcould not set lock\b",
            r"\bcouldn't get a connection after\b|\bnot primary\b|\bloading the dataset\b",
            r"\b(?:request|call|query|api)s? limit (?:exceeded|reached)\b|\blogin timeout\b",
            r"\b(?:try again|retry) (?:later\b|in \d|in an? (?:few )?\w+|after \d)",
            r"\btoo much contention\b|\bterminating connection\b",
            r"\b(?:is )?temporarily (?:unavailable|overloaded|out of service)\b",
            r"\bkernel (?:died|didn[’']t respond)\b|\berror reading ssh protocol banner\b",
        ),
        unless=_any(r"\bno such file\b"),
        of_databases=True,
    ),
    Phrase(
        FailureType.SCHEMA_MISMATCH,
        _any(
            r"\bvalidation errors? for \w",
            r"\bfield required\b|\brequired (?:property|field)\b|\bextra inputs are not permitted",
            r"\binput should be (?:a|an|one|less|greater|\w+)\b|\bmissing data for required field",
            r"\bunexpected keyword argument\b",
            r"\bmissing \d+ required (?:positional|keyword-only) argument",
            r"\bmissing required (?:parameter|param|field|argument|propert)",
            r"\b(?:parameter|argument) [\w\"'`]+ is required\b",
            r"\badditional properties are not allowed\b|\bis not of type\b",
            r"\bis not valid under any of the given schemas\b|\bfailed validation\b",
            r"\binvalid (?:arguments|parameters|schema|input) (?:for|output|payload|received)",
            r"\binvalid json\b",
            r"^invalid params\W*$|^parse error\W*$",
            r"\binvalid request parameters\b|\binvalid type for parameter\b",
            r"\bis not valid json\b|\bargument must be in json format\b|\bjson is invalid\b",
            r"\bjson schema is invalid\b|\bdoes not appear to be json\b",
            r"\bcould not (?:parse|extract) (?:llm|model|json|response content)\b",
            r"\bfailed to parse (?:the )?(?:lm|llm|model|response|json)\b",
            r"\b(?:answer|output|completion)\b.{0,20}\bcould not be parsed\b",
            r"\boutput parsing error\b|\boutput validation\b|\berror in code parsing\b",
            r"\bexpecting value: line\b|\bexpecting [^\n]{0,20} delimiter: line\b",
            r"\bexpecting property name enclosed\b|\bunterminated string starting at\b",
            r"\bextra data: line\b|\bunexpected end of json\b|\bunexpected mimetype\b",
            r"\binvalid for expected schema\b|\bschema[_ ](?:validation failed|mismatch)\b",
            r"\b(?:not|doesn[’']t) match (?:the |its )?(?:expected |required |output )*schema\b",
            r"\boutput schema but did not return\b|\bfailed to call a function\b",
            r"\baction input is not a valid\b|\bcould not be deserialized\b",
            r"\bshould be of type \w+|\bexpected `\w+`, got `\w+`",
            r"\berror parsing message with type\b|\bunknown name \S+ at\b",
        ),
    ),
    Phrase(
        FailureType.LOOP_DETECTED,
        _any(
            r"\breus(?:ing|ed) the same (?:input|arguments)\b",
            r"\b(?:same|identical) (?:tool )?call\b.{0,40}\b(?:again|repeated|times)\b",
            r"\b(?:loop|repetition) (?:was )?detected\b",
        ),
    ),
)


def meaning(seen: Evidence, *, of_program: bool = False) -> FailureType | None:
    """The type that the words say, ``None`` when they say none.

    ``of_program`` says that the error came from code that the agent wrote: its arguments and
    structures are the code's own, so only what lies outside it can be told.
    """
    outside = (FailureType.EXTERNAL_FAULT, FailureType.TIMEOUT)
    return next(
        (
            phrase.type
            for phrase in PHRASES
            if (phrase.type in outside or not of_program) and phrase.says(seen)
        ),
        None,
    )


def sharp_meaning(seen: Evidence) -> FailureType | None:
    """What words say more exactly than any code: that the request was too long, that it was
    refused under a policy, that an answer was no JSON, or that nothing here can help."""
    for phrase in (OVERFLOW, REFUSED, UNREADABLE, SETTLED):
        if phrase.says(seen):
            return phrase.type
    told = translate(Exception(seen.words), environ={}).type
    known = (FailureType.CONTEXT_OVERFLOW, FailureType.CONSTRAINT_IGNORED)
    return told if told in known else None
