"""What structured evidence means: one table, most specific row first.

A settled row says ``UNKNOWN`` with certainty: the cause is known to be none of the types, so words
are not asked. A weak row counts only when the words say nothing.
"""

import re
from dataclasses import dataclass

from parsimony_kernel.triage.evidence import Evidence
from parsimony_kernel.triage.taxonomy import FailureType


@dataclass(frozen=True)
class Row:
    """One meaning: any of its marks is enough. ``causes`` are looked for along the whole chain,
    ``names`` and what is ``like`` one in the error itself. ``sqlstates`` are prefixes."""

    type: FailureType
    names: frozenset[str] = frozenset()
    causes: frozenset[str] = frozenset()
    like: re.Pattern[str] | None = None
    codes: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    errnos: frozenset[str] = frozenset()
    sqlstates: tuple[str, ...] = ()
    rpc: frozenset[int] = frozenset()

    def meets(self, seen: Evidence) -> bool:
        """Whether ``seen`` shows one of the marks."""
        return bool(
            self.names & seen.names
            or self.causes & (seen.names | seen.causes)
            or (self.like and any(self.like.search(name) for name in seen.names))
            or self.codes & seen.codes
            or seen.status in self.statuses
            or seen.errno in self.errnos
            or seen.sqlstate.startswith(self.sqlstates or ("-",))
            or seen.rpc in self.rpc
        )


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


STRONG: tuple[Row, ...] = (
    Row(
        FailureType.CONTEXT_OVERFLOW,
        names=_set("ContextWindowExceededError ContextOverflowError"),
        codes=_set("context_length_exceeded exceed_context_size_error request_too_large"),
    ),
    Row(
        FailureType.CONSTRAINT_IGNORED,
        names=_set(
            "ContentPolicyViolationError RejectedRequestError ContentFilterFinishReasonError "
            "BlockedPromptException InputGuardrailTripwireTriggered "
            "OutputGuardrailTripwireTriggered"
        ),
        like=re.compile(r"Guardrail(?:Raised|Interven|Violat|Tripwire)|^Blocked(?:Pii|Prompt)"),
        codes=_set(
            "content_filter content_policy_violation responsibleaipolicyviolation "
            "data_inspection_failed prohibited_content"
        ),
    ),
    # Configuration, credentials and money: no hint to the model helps, and no wait.
    Row(
        FailureType.UNKNOWN,
        causes=_set(
            "ImportError SSLCertVerificationError ClientConnectorCertificateError "
            "ServerFingerprintMismatch"
        ),
        codes=_set(
            "insufficient_quota billing_hard_limit_reached billing_not_active "
            "insufficient_balance invalid_api_key authentication_error api_key_invalid "
            "unauthenticated permission_denied accessdenied accessdeniedexception expiredtoken "
            "model_not_found not_found nosuchkey nosuchbucket resourcenotfoundexception "
            "invalid_grant invalid_client unauthorized_client access_denied invalid_token"
        ),
        like=re.compile(
            r"Credential|Authenticat|Unauthori[sz]ed|Authori[sz]ationError|InvalidPassword"
            r"|PermissionDenied|AccessDenied|TokenRetrieval|InvalidRegion"
        ),
        statuses=frozenset({401, 402, 405, 407, 410, 451}),
    ),
    Row(
        FailureType.WRONG_TOOL_CALLED,
        like=re.compile(
            r"(?:NoSuch|Unknown|Unregistered|Unavailable)Tool"
            r"|Tool(?:Name)?(?:Not(?:Found|Registered|Available|Exist)|DoesNotExist)"
            r"|FunctionNotFoundError"
        ),
        rpc=frozenset({-32601}),
    ),
    # An answer that came and did not fit is no weather, whatever status a wrapper gives it.
    Row(
        FailureType.SCHEMA_MISMATCH,
        names=_set("JSONSchemaValidationError APIResponseValidationError LengthFinishReasonError"),
    ),
    Row(
        FailureType.TIMEOUT,
        names=_set("TimeoutExpired QueryCanceled QueryCanceledError"),
        like=re.compile(
            r"(?:Tool|Cell|Step|Task|Workflow|Execution|Statement|Query|Job)(?:Execution)?Timeout"
            r"|TimeLimitExceeded"
        ),
        codes=_set("maxtimemsexpired"),
        sqlstates=("57014",),
    ),
    # Vendors number their own errors with the standard's states; the class is the driver's word.
    Row(FailureType.UNKNOWN, names=_set("ProgrammingError IntegrityError")),
    Row(
        FailureType.EXTERNAL_FAULT,
        like=re.compile(
            r"IncompleteRead"
            r"|(?:Socket|Network|Connect(?:ion)?|Handshake|Read|Write|Request|Response)Time[dD]?[oO]ut"
        ),
        codes=_set(
            "rate_limit_error rate_limit_exceeded resource_exhausted ratelimited overloaded_error "
            "server_error throttling throttlingexception throttledexception toomanyrequests "
            "toomanyrequestsexception requestlimitexceeded slowdown serverbusy internalerror "
            "provisionedthroughputexceededexception serviceunavailable requesttimeout "
            "internalserverexception modelnotreadyexception sqlite_busy sqlite_locked unavailable "
            "deadline_exceeded aborted operationtimedout requestthrottled requesttimeoutexception "
            "requestthrottledexception ec2throttledexception bandwidthlimitexceeded "
            "priorrequestnotcomplete transactioninprogressexception internalfailure "
            "serviceunavailableexception"
        ),
        statuses=frozenset({408, 425, 429, 500, 502, 503, 504, *range(520, 531)}),
        errnos=_set(
            "ECONNRESET ECONNREFUSED ECONNABORTED EPIPE ENETUNREACH EHOSTUNREACH ETIMEDOUT "
            "ENETDOWN ENETRESET EHOSTDOWN EAGAIN ESTALE"
        ),
        sqlstates=("08", "40", "53300", "57P01", "57P02", "57P03", "55P03"),
    ),
    # The statement, the data or the code is at fault: it is neither the tool's name nor its
    # arguments, and waiting changes nothing.
    Row(
        FailureType.UNKNOWN,
        names=_set(
            "KeyError NameError AttributeError IndexError AssertionError ArithmeticError "
            "SyntaxError RecursionError MemoryError UnicodeError StopIteration "
            "NotImplementedError FileNotFoundError FileExistsError PermissionError "
            "IsADirectoryError NotADirectoryError KeyboardInterrupt CancelledError "
            "IntegrityError ProgrammingError DataError AuthenticationError "
            "PermissionDeniedError CalledProcessError LocalProtocolError UnsupportedProtocol "
            "InvalidURL InvalidHeader MissingSchema InvalidSchema TooManyRedirects DecodingError"
        ),
        errnos=_set("ENOENT EACCES EPERM ENOSPC EISDIR ENOTDIR EEXIST EROFS EMFILE EINVAL"),
        sqlstates=("22", "23", "28", "42"),
    ),
    Row(
        FailureType.SCHEMA_MISMATCH,
        names=_set(
            "JSONDecodeError RequestValidationError HTTPValidationError ParamValidationError "
            "OutputParserException AdapterParseError IncompleteOutputException ZodError "
            "SchemaValidationError NotJSONError ContentTypeError DecodeError AgentParsingError "
            "MissingParametersError StructuredOutputError"
        ),
        like=re.compile(
            r"JSONDecode|Output(?:Parse|Parsing)|InvalidTool(?:Input|Arguments?)|ToolInvocationError"
            r"|ToolInput(?:Schema|Validation)"
        ),
        codes=_set(
            "invalid_function_parameters serializationexception invalidrequestcontent "
            "invalid_type unrecognized_keys validation_error"
        ),
        rpc=frozenset({-32700}),
    ),
    Row(
        FailureType.EXTERNAL_FAULT,
        causes=_set(
            "ConnectionError APIConnectionError NetworkError TransportError ProtocolError "
            "ClientConnectionError ClientPayloadError IncompleteRead gaierror TimeoutError "
            "APITimeoutError TimeoutException Timeout ReadTimeout ConnectTimeout PoolTimeout "
            "ReadTimeoutError ConnectTimeoutError ConnectError "
            "RemoteProtocolError ServerDisconnectedError ClientConnectorError ServerTimeoutError "
            "RemoteDisconnected MaxRetryError NewConnectionError NameResolutionError ProxyError "
            "ChunkedEncodingError RateLimitError InternalServerError ServiceUnavailableError "
            "BadGatewayError OverloadedError TooManyRequestsError ServiceUnavailable "
            "TooManyRequests ResourceExhausted DeadlineExceeded GatewayTimeout RateLimitExceeded "
            "RateLimitExceededException ConnectionFailure AutoReconnect NoBrokersAvailable "
            "NoHostAvailable ConnectionClosedError SMTPServerDisconnected SSLEOFError "
            "EndpointConnectionError BusyLoadingError DeadlockDetected SerializationFailure "
            "LockNotAvailable TooManyConnections AdminShutdown DeadKernelError "
            "TemporarilyUnavailable ConnectionDoesNotExistError ServerSelectionTimeoutError "
            "ServiceRequestError ServiceResponseError ConnectionTimeout TransientError "
            "error_temp ServerError ClusterDownError MasterDownError TryAgainError"
        ),
        like=re.compile(
            r"RateLimit(?!er)|Throttl|TooManyRequests|Overloaded|ServiceUnavailable|BadGateway"
            r"|GatewayTimeout|TemporarilyUnavailable|Connect(?:ion)?(?:Reset|Refused|Timeout|Aborted)"
        ),
    ),
)

# A name that some libraries use for their own quite different things.
WEAK: tuple[Row, ...] = (
    Row(
        FailureType.UNKNOWN,
        names=_set("NotFoundError PydanticUserError"),
        statuses=frozenset({403, 404}),
    ),
    Row(
        FailureType.SCHEMA_MISMATCH,
        names=_set("ValidationError"),
        statuses=frozenset({422}),
        rpc=frozenset({-32602}),
    ),
)


def first_met(rows: tuple[Row, ...], seen: Evidence) -> Row | None:
    """The first row that ``seen`` meets."""
    return next((row for row in rows if row.meets(seen)), None)
