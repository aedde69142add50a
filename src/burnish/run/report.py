"""What a check of a config finds: refusals, the proof of the mask, the ledger, the plan, warnings. Shapes alone.

`data.check` fills them, the server keeps one with each run, every screen shows them. Lists are short; counts are whole.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from burnish.errors import BurnishError, ConfigError
from burnish.run.events import Share

SHOWN = 10
"""Of rows, pairs and places, a list names the first so many; a count beside it tells them all."""

HELD_OUT = "[val]"
"""Stands in the place of a split's name for the validation data of the config."""


_KEPT_TOKENS = 2_048
"""Of each row of a proof that is kept with a run."""


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Refusal(Part):
    """Why this config will not be trained."""

    code: str
    """The kind of error: `config`, `data`, `model`, `plan`, `volume`."""
    message: str
    hint: str = ""
    key: str = ""
    """The config's key that is at fault, where it is one."""


class Warned(Part):
    """Nothing that stops a run; something that few people mean."""

    key: str
    text: str
    reason: str


class ProofPiece(Part):
    text: str
    trained: bool
    role: str = ""
    """Whose turn it is part of; empty between turns."""


class ProofRow(Part):
    """One sample as the model will be given it, told from its tokens."""

    source: str
    """`train.jsonl:17`"""
    token_ids: list[int]
    trained: list[int]
    """1 where the token is trained, else 0."""
    pieces: list[ProofPiece]
    """Texts one after the other are the whole; each covers whole tokens of one kind."""
    token_ends: list[int] = []
    """Of each token, how many letters of the whole text it and those before it make."""
    tokens_left_out: int = 0
    """More tokens that the sample has."""

    def first(self, tokens: int) -> "ProofRow":
        """The row's beginning alone."""
        if len(self.token_ids) <= tokens:
            return self
        pieces, letters = [], self.token_ends[tokens - 1] if tokens else 0
        for piece in self.pieces:
            pieces.append(piece.model_copy(update={"text": piece.text[:letters]}))
            letters -= len(piece.text)
            if letters <= 0:
                break
        return ProofRow(
            source=self.source,
            token_ids=self.token_ids[:tokens],
            trained=self.trained[:tokens],
            pieces=pieces,
            token_ends=self.token_ends[:tokens],
            tokens_left_out=len(self.token_ids) - tokens,
        )


class SkippedRow(Part):
    source: str
    reason: str


class RowPair(Part):
    """A row and the earlier one that it repeats."""

    row: str
    earlier: str
    similarity: float
    """Jaccard, of the letters' five-grams; 1 where all is equal."""


class Repeats(Part):
    rows: int = 0
    """Rows that repeat an earlier one."""
    groups: int = 0
    """Rows that are repeated."""
    first: list[RowPair] = []


class Shared(Part):
    """Rows of another split that are trained on as well."""

    split: str
    """Its name, or `HELD_OUT`."""
    rows: int
    """Of that split, all in all."""
    exact: int
    near: int
    first: list[RowPair] = []


class PrivateSpot(Part):
    source: str
    role: str
    kind: str
    shown: str
    """All but the first and last two letters covered."""


class PrivateText(Part):
    secrets: dict[str, int] = {}
    """By kind, how many."""
    personal: dict[str, int] = {}
    first: list[PrivateSpot] = []
    """Secrets before personal data."""


class LedgerReport(Part):
    """What an epoch is given, and where the rest went.

    `rows_read` is `rows_used` and all of `rows_skipped`; `tokens_rendered` and `tokens_repeated` are `tokens`,
    `tokens_cut` and all of `tokens_skipped`; `slots` are `tokens` and `padding`. Trained tokens likewise.
    """

    rows_read: int
    rows_used: int
    rows_skipped: dict[str, int] = {}
    """By reason: `bad row`, `too long`, `no trained token`."""
    skipped: list[SkippedRow] = []
    samples: int
    """What an epoch learns from: a row, or one turn of it with what came before."""
    samples_skipped: dict[str, int] = {}
    samples_cut: int = 0
    tokens_rendered: int
    trained_tokens_rendered: int
    tokens: int
    trained_tokens: int
    tokens_repeated: int = 0
    """Of `tokens`, those of rows that an epoch reads again, as sources are drawn from."""
    trained_tokens_repeated: int = 0
    tokens_cut: int = 0
    trained_tokens_cut: int = 0
    tokens_skipped: dict[str, int] = {}
    trained_tokens_skipped: dict[str, int] = {}
    thoughts_lost: int = 0
    open_samples: int = 0
    """Samples whose last trained token is none that ends a reply."""
    longest_sample: int = 0
    """Tokens, before any cut."""
    packed_rows: int
    slots: int
    padding: int
    pad_share: float
    sources: dict[str, Share] = {}
    """By subset or split, where there are several."""
    duplicates: Repeats = Repeats()
    near_duplicates: Repeats | None = None
    """None: not looked for."""
    near_rows: int = 0
    """How many rows were compared for that."""
    rows_respelt: int = 0
    """Rows with letters that are to be trained and that the tokenizer has no tokens for."""
    shared: list[Shared] = []
    private: PrivateText = PrivateText()


class LearningRate(Part):
    first: float
    peak: float
    last: float


class PlanReport(Part):
    steps: int
    steps_per_epoch: int
    epochs: float
    warmup_steps: int
    decay_steps: int
    packed_rows_per_epoch: int
    packed_rows_per_step: int
    packed_rows_per_reader: int
    """Of a full step."""
    readers: int
    slots_per_step: int
    """Tokens of a full step, padding included."""
    tokens_per_step: float
    """Real ones, on average over an epoch's steps."""
    trained_tokens_per_step: float
    learning_rate: LearningRate
    meanings: list[str] = []
    """What keys were taken to mean, one sentence each."""
    storage_bytes: int
    """What the run's outputs will hold at the most."""


class Comparison(Part):
    """Whether a run was given what the check says: the hashes of all ids and masks up to a step."""

    verdict: Literal["agrees", "differs", "not compared"]
    reason: str
    checked: str = ""
    trained: str = ""


class CheckReport(Part):
    """Everything that can be said of a config before a device is held."""

    model: str = ""
    renderer: str = ""
    """The one in use; for `auto`, what it came to."""
    refusals: list[Refusal] = []
    """Empty: a submission would be accepted."""
    complete: bool = False
    """The whole data set was read. False: what is said holds of the rows read."""
    proof: list[ProofRow] = []
    ledger: LedgerReport | None = None
    plan: PlanReport | None = None
    lint: list[Warned] = []
    stream_of_epoch: str = ""
    """Hash of the ids and masks of one epoch, in any order."""
    stream_at_end: str = ""
    """Of the whole run: the diary's last step is to come to the same. Empty where only a part was read."""
    stream_at_step: str = ""
    """The same up to the step that was asked for."""
    comparison: Comparison | None = None

    def shortened(self) -> "CheckReport":
        """As it is kept: with so much of the proof as a page shows."""
        return self.model_copy(update={"proof": [row.first(_KEPT_TOKENS) for row in self.proof]})


def refusals_of(error: BurnishError) -> list[Refusal]:
    """One for each fault of a config; else one."""
    problems = error.problems if isinstance(error, ConfigError) else ()
    if len(problems) > 1:
        return [Refusal(code=error.code, key=problem.key, message=problem.message) for problem in problems]
    key = problems[0].key if problems else ""
    return [Refusal(code=error.code, key=key, message=error.message, hint=error.hint)]
