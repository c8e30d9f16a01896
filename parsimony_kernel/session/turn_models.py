"""Model selection for a turn: the models, their cassettes, and the log of sent requests.

A cassette identifies a turn by its request and by its position among the notebook's cells with the
same request, so a recording is found again whatever the front end's cell ids and the cell's flags.
Rules: a replay never calls a provider; a request that can't be logged is not sent.
"""

from collections.abc import Mapping
from pathlib import Path

from parsimony_kernel.agent.resolve import EFFORT, check_models, names_in, resolve_models
from parsimony_kernel.core.causes import CAPABILITY_GAP
from parsimony_kernel.core.chat import OFFLINE, ChatModel, ModelRequest
from parsimony_kernel.core.kinds import FailureRaised
from parsimony_kernel.llm import cassette
from parsimony_kernel.llm.cassette_mode import SAVED_BY, CassetteMode, mode_in
from parsimony_kernel.llm.providers import price_in_words, provider_of
from parsimony_kernel.llm.request_key import Place, normal_words
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.session.notebook_identity import NAMELESS
from parsimony_kernel.session.share import WORDS, Share
from parsimony_kernel.session.turn_values import SessionError, TurnOptions, sentence
from parsimony_kernel.storage import durable, run_log
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.journal import SqliteJournal

Models = tuple[ChatModel, ...]

_NO_RECORDING = (
    "No recording for this cell; record it with %%agent --record, or the whole notebook with "
    "PARSIMONY_CASSETTE=record."
)


def require(model: str | ChatModel, environ: Mapping[str, str], effort: str = "") -> Models:
    """Resolve ``model`` to chat models.

    Raises:
        SessionError: One of them can't be used, or the model settings are invalid.
    """
    try:
        failure = check_models(model, environ) if isinstance(model, str) else None
        if failure is not None:
            raise SessionError(sentence(failure.explanation))
        return resolve_models(model, with_effort(environ, effort))
    except ValueError as exc:
        raise SessionError(f"The settings of models cannot be read: they take {exc}.") from exc


def with_effort(environ: Mapping[str, str], effort: str) -> Mapping[str, str]:
    """Return ``environ`` with the cell's reasoning effort, if it sets one."""
    return {**environ, EFFORT: effort} if effort else environ


class Cassettes:
    """The cassettes of one notebook: replays turns from them, or records turns to them.

    Args:
        notebook: The notebook's path in the workspace.
        folder: The notebook's folder.
        environ: Environment variables; may set the cassette mode.
    """

    def __init__(self, notebook: str, folder: Path, environ: Mapping[str, str]) -> None:
        self._name = Path(notebook).name
        self._folder = folder
        self._environ = environ
        # The positions of cells with the same request, by the request.
        self._cells: dict[str, dict[str, int]] = {}
        self._modes: dict[str, CassetteMode] = {}

    @property
    def only_replay(self) -> bool:
        """Whether the environment sets replay, so that no turn needs a model."""
        return self._mode(None) is CassetteMode.replay

    def models(
        self,
        run_id: str,
        request: str,
        cell_key: str,
        model: str | ChatModel,
        options: TurnOptions,
        *,
        goes_on: bool = False,
    ) -> Models:
        """Return the models of a turn: a cassette player in a replay, else real models.

        Args:
            run_id: The turn.
            request: What the person asks for.
            cell_key: The turn's cell.
            model: The notebook's model; a provider's is not called in a replay.
            options: The cell's model, effort and cassette mode, which doesn't override the
                environment's replay.
            goes_on: Whether the turn is resumed; it then keeps the mode it began with.

        Raises:
            SessionError: The recording is missing, broken, from another release, lacks this turn,
                or was made with another model than the cell names.
        """
        named = options.model
        mode = self._mode(self._modes.get(run_id) if goes_on else options.cassette)
        self._modes[run_id] = mode
        words = normal_words(request, Place(self._folder, Secrets(self._environ).clean))
        cells = self._cells.setdefault(words, {})
        occurrence = cells.setdefault(cell_key, len(cells) + 1)
        if mode is CassetteMode.replay:
            tape = self._tape()
            is_recorded = any(turn.request == words for turn in tape.read().turns)
            # The file names the models that made the cell's saved output, and is empty if unknown.
            # Unset unless the notebook is being compared with its saved output.
            saved_by = self._environ.get(SAVED_BY)
            if is_recorded or saved_by is None:
                return (self._player(tape, words, occurrence, named),)
            # A model object made by the notebook's code is part of the notebook, like a tool.
            is_its_own = named is None and not isinstance(model, str)
            if not (goes_on or is_its_own):
                is_built_in = durable.read(Path(saved_by)).decode() == OFFLINE
                if named not in (None, OFFLINE) or not is_built_in:
                    raise SessionError(_NO_RECORDING)
                model = OFFLINE
        models = require(named or model, self._environ, options.effort)
        if mode is not CassetteMode.record:
            return models
        secrets = Secrets.of(models, self._environ)
        name = ", ".join(each.name for each in models)
        recorder = cassette.TurnRecorder(
            self._tape(),
            cassette.RecordedTurn(request=words, occurrence=occurrence, model=name),
            self._place(secrets),
            secrets,
            goes_on=goes_on,
        )
        return tuple(cassette.recorded(each, recorder) for each in models)

    def _mode(self, chosen: CassetteMode | None) -> CassetteMode:
        around = mode_in(self._environ)
        return around if chosen is None or around is CassetteMode.replay else chosen

    def _place(self, secrets: Secrets) -> Place:
        return Place(self._folder, secrets.clean, frozenset(self._cells))

    def _tape(self) -> cassette.Tape:
        if self._name == NAMELESS:
            raise SessionError(
                "The notebook's name is unknown, so its recording has none. Save it as a "
                "notebook, or set JPY_SESSION_NAME to its path before the kernel starts."
            )
        tape = cassette.Tape(cassette.path_of(self._folder / self._name), self._name)
        tape.read()  # raises if unreadable, so that a damaged file is never overwritten
        return tape

    def _player(
        self, tape: cassette.Tape, words: str, occurrence: int, named: str | None
    ) -> cassette.Player:
        shown = f"{cassette.FOLDER}/{tape.path.name}"
        if not tape.exists:
            raise SessionError(
                f"There is no recording to replay: {shown} is not beside {self._name!r}. Run the "
                "notebook once with PARSIMONY_CASSETTE=record, or the cell with --record, and "
                "keep the file with the notebook."
            )
        place = self._place(Secrets(self._environ))
        player = cassette.Player(tape.read(), words, occurrence, place, shown=shown)
        if named is not None and ", ".join(names_in(named, self._environ)) != player.name:
            raise SessionError(
                f"This request was recorded with {player.name!r}, but the cell asks for {named!r}. "
                "Record the cell again with --record, or leave its model out."
            )
        return player


# -- requests sent


def noting(models: Models, journal: SqliteJournal, run_id: str) -> Models:
    """Wrap ``models`` to log each request before it is sent; stand-ins send nothing, so stay bare.

    A wrapped model raises ``FailureRaised`` instead of sending a request that can't be logged.
    """

    log = run_log.SentLog(journal, run_id)

    def logged(model: ChatModel) -> ChatModel:
        def put_down(request: ModelRequest) -> None:
            try:
                log.put_down(journal.clock.now().isoformat(), model.name, request)
            except JournalError as exc:
                why = f"Nothing was sent, because it could not be put on record. {exc}"
                raise FailureRaised(CAPABILITY_GAP.failure(why, blockers=(why,))) from exc

        return model if _is_stand_in(model) else cassette.WrapperModel(model, asked=put_down)

    return tuple(map(logged, models))


def first_notice(models: Models, share: Share, journal: SqliteJournal, history: str) -> str:
    """Return the notice shown before the notebook first sends requests to an LLM; else empty.

    It names the models, their prices and the share mode.

    Args:
        models: The models of the turn.
        share: The turn's share mode.
        journal: The workspace's journal.
        history: The name under which ``journal`` keeps the notebook's turns.
    """
    names = [each.name for each in models if each.name != OFFLINE and not _is_stand_in(each)]
    away = [f"{name} ({price_in_words(name)})" if provider_of(name) else name for name in names]
    if not away or run_log.has_asked(journal, history, but=OFFLINE):
        return ""
    less = "" if share in (Share.schema, Share.none) else "; `%%agent --share schema` sends less"
    return (
        f"From this turn on, requests in this notebook are sent to {' or '.join(away)}, with "
        f"{WORDS[share]}. `%agent context` shows what would be sent{less}."
    )


def _is_stand_in(model: ChatModel) -> bool:
    """Whether the model is a stand-in that calls no LLM: a recording, or code."""
    return getattr(model, "is_stand_in", False)
