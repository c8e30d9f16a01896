-- The tables of a journal. What a turn does finds its rows by an index, so that its cost doesn't
-- grow with the journal; an index with a condition serves the queries that repeat it. Every table
-- but the breakers is sealed, see seal.py.

CREATE TABLE turns (
    run_id TEXT PRIMARY KEY, notebook TEXT NOT NULL, cell_key TEXT NOT NULL,
    ordinal INTEGER NOT NULL, request TEXT NOT NULL, model TEXT NOT NULL,
    status TEXT NOT NULL, started_at TEXT NOT NULL, ended_at TEXT NOT NULL DEFAULT '',
    summary TEXT NOT NULL DEFAULT '', connection_file TEXT NOT NULL DEFAULT '',
    pid INTEGER NOT NULL DEFAULT 0, running_since TEXT NOT NULL DEFAULT '',
    UNIQUE (notebook, ordinal)
);
CREATE INDEX turns_of_cell ON turns (notebook, cell_key, ordinal);
CREATE INDEX running_turns ON turns (notebook) WHERE status = 'running';
CREATE INDEX ended_turns ON turns (notebook, ordinal)
    WHERE status NOT IN ('forgotten', 'replaced', 'running') AND request <> '';

CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, at TEXT NOT NULL,
    body TEXT NOT NULL, prev TEXT NOT NULL, hash TEXT NOT NULL
);
CREATE INDEX events_of_run ON events (run_id, seq);
CREATE INDEX publications ON events (
    CASE WHEN json_valid(body) THEN json_extract(body, '$.path') END
) WHERE instr(body, '"artifact_published"');

-- Questions.
CREATE TABLE suspensions (
    nonce TEXT PRIMARY KEY, run_id TEXT NOT NULL, record TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending'
);
CREATE INDEX suspensions_of_run ON suspensions (run_id);
CREATE INDEX questions ON suspensions (run_id) WHERE state = 'pending';

-- The write-ahead log of side effects, by idempotency key.
CREATE TABLE effects (
    key TEXT PRIMARY KEY, run_id TEXT NOT NULL, action TEXT NOT NULL, inputs TEXT NOT NULL,
    state TEXT NOT NULL, answer TEXT NOT NULL DEFAULT 'null'
);
CREATE INDEX effects_of_run ON effects (run_id);
CREATE INDEX unfinished_effects ON effects (action) WHERE state = 'intended';

-- Requests to models.
CREATE TABLE sent (
    run_id TEXT NOT NULL, seq INTEGER NOT NULL, at TEXT NOT NULL, model TEXT NOT NULL,
    request TEXT NOT NULL, PRIMARY KEY (run_id, seq)
);

-- The digests of the lines of artifacts' logs.
CREATE TABLE log_lines (log TEXT NOT NULL, seal TEXT NOT NULL, PRIMARY KEY (log, seal));

-- Which models are failing.
CREATE TABLE breakers (name TEXT PRIMARY KEY, state TEXT NOT NULL);
