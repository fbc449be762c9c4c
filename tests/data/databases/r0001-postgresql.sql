SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.accounts (
    name text NOT NULL COLLATE pg_catalog."C",
    password_hash text,
    is_admin boolean NOT NULL,
    is_disabled boolean NOT NULL,
    created_at timestamp with time zone NOT NULL
);
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.audit (
    sequence bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    actor text NOT NULL COLLATE pg_catalog."C",
    action text NOT NULL COLLATE pg_catalog."C",
    project text COLLATE pg_catalog."C",
    type text COLLATE pg_catalog."C",
    id text,
    result text NOT NULL COLLATE pg_catalog."C",
    address text,
    details text NOT NULL
);
CREATE SEQUENCE public.audit_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.audit_sequence_seq OWNED BY public.audit.sequence;
CREATE TABLE public.entities (
    type text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    project text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    "user" text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    updated_by text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    function text COLLATE pg_catalog."C",
    function_base text COLLATE pg_catalog."C",
    workflow text COLLATE pg_catalog."C",
    workflow_base text COLLATE pg_catalog."C",
    task text COLLATE pg_catalog."C",
    action text COLLATE pg_catalog."C",
    search text NOT NULL,
    is_latest boolean NOT NULL,
    metadata text NOT NULL,
    spec text NOT NULL,
    status text NOT NULL,
    extensions text NOT NULL
);
CREATE TABLE public.firings (
    sequence bigint NOT NULL,
    trigger_id text NOT NULL COLLATE pg_catalog."C",
    occasion text NOT NULL COLLATE pg_catalog."C"
);
CREATE SEQUENCE public.firings_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.firings_sequence_seq OWNED BY public.firings.sequence;
CREATE TABLE public.labels (
    type text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    label text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.meta (
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL
);
CREATE TABLE public.metrics (
    type text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL
);
CREATE TABLE public.revisions (
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    document text,
    "user" text NOT NULL COLLATE pg_catalog."C",
    at timestamp with time zone NOT NULL
);
CREATE TABLE public.run_totals (
    project text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL
);
CREATE TABLE public.runs (
    id text NOT NULL COLLATE pg_catalog."C",
    project text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    "user" text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    updated_by text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    function text COLLATE pg_catalog."C",
    function_base text COLLATE pg_catalog."C",
    workflow text COLLATE pg_catalog."C",
    workflow_base text COLLATE pg_catalog."C",
    task text COLLATE pg_catalog."C",
    action text COLLATE pg_catalog."C",
    search text NOT NULL,
    request_hash text NOT NULL COLLATE pg_catalog."C",
    profile_revision bigint,
    policy_revision bigint,
    is_local boolean NOT NULL,
    desired text NOT NULL COLLATE pg_catalog."C",
    desired_generation bigint NOT NULL,
    observed_generation bigint NOT NULL,
    due_at timestamp with time zone,
    anchor_uid text COLLATE pg_catalog."C",
    reason text COLLATE pg_catalog."C",
    message text,
    shard_key integer NOT NULL,
    lease_owner text COLLATE pg_catalog."C",
    lease_token text COLLATE pg_catalog."C",
    lease_until timestamp with time zone,
    is_nudged boolean NOT NULL,
    metadata text NOT NULL,
    spec text NOT NULL,
    status text NOT NULL,
    extensions text NOT NULL,
    request text NOT NULL,
    effective text,
    provenance text NOT NULL,
    warnings text NOT NULL
);
CREATE TABLE public.secrets (
    project text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    key_id text NOT NULL COLLATE pg_catalog."C",
    wrapped_key bytea NOT NULL,
    ciphertext bytea NOT NULL
);
CREATE TABLE public.shares (
    id text NOT NULL COLLATE pg_catalog."C",
    project text NOT NULL COLLATE pg_catalog."C",
    "user" text NOT NULL COLLATE pg_catalog."C",
    role text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.tokens (
    id text NOT NULL COLLATE pg_catalog."C",
    "user" text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    hash text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    scopes text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone
);
CREATE TABLE public.tombstones (
    run_id text NOT NULL COLLATE pg_catalog."C",
    project text NOT NULL COLLATE pg_catalog."C",
    at timestamp with time zone NOT NULL
);
CREATE TABLE public.transitions (
    run_id text NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    at timestamp with time zone NOT NULL,
    actor text NOT NULL COLLATE pg_catalog."C",
    reason text COLLATE pg_catalog."C",
    message text
);
ALTER TABLE ONLY public.audit ALTER COLUMN sequence SET DEFAULT nextval('public.audit_sequence_seq'::regclass);
ALTER TABLE ONLY public.firings ALTER COLUMN sequence SET DEFAULT nextval('public.firings_sequence_seq'::regclass);
INSERT INTO public.accounts VALUES ('ada', NULL, false, false, '2026-11-15 12:00:00.123456+00');
INSERT INTO public.alembic_version VALUES ('0001');
INSERT INTO public.audit VALUES (1, '2026-11-15 12:00:00.123456+00', 'ada', 'run.create', 'p', 'run', 'r1', 'ok', NULL, '{}');
INSERT INTO public.entities VALUES ('project', 'p', 'p', 'project', 'p', 'ada', '2026-11-15 12:00:00.123456+00', '2026-11-15 12:00:00.123456+00', 'ada', 'CREATED', 1, NULL, NULL, NULL, NULL, NULL, NULL, 'pp', true, '{"description":"d"}', '{"source":{"handler":"h"}}', '{"note":"n"}', '[]');
INSERT INTO public.entities VALUES ('project', 'q', 'q', 'project', 'q', 'ada', '2026-11-15 12:00:00.123456+00', '2026-11-15 12:00:00.123456+00', 'ada', 'CREATED', 1, NULL, NULL, NULL, NULL, NULL, NULL, 'qq', true, '{"description":"d"}', '{"source":{"handler":"h"}}', '{"note":"n"}', '[]');
INSERT INTO public.entities VALUES ('function', 'f2', 'p', 'python', 'f', 'ada', '2026-11-15 12:00:01.123456+00', '2026-11-15 12:00:00.123456+00', 'ada', 'CREATED', 1, NULL, NULL, NULL, NULL, NULL, NULL, 'f2f', true, '{"description":"d"}', '{"source":{"handler":"h"}}', '{"note":"n"}', '[]');
INSERT INTO public.entities VALUES ('function', 'f1', 'p', 'python', 'f', 'ada', '2026-11-15 12:00:00.123456+00', '2026-11-15 12:00:00.123456+00', 'ada', 'CREATED', 1, NULL, NULL, NULL, NULL, NULL, NULL, 'f1f', false, '{"labels":["old","both"]}', '{"source":{"handler":"h"}}', '{"note":"n"}', '[]');
INSERT INTO public.entities VALUES ('task', 't1', 'p', 'python+job', 't1', 'ada', '2026-11-15 12:00:00.123456+00', '2026-11-15 12:00:00.123456+00', 'ada', 'CREATED', 1, 'python://p/f:f1', 'python://p/f', NULL, NULL, NULL, 'job', 't1t1', true, '{"description":"d"}', '{"function":"python://p/f:f1"}', '{"note":"n"}', '[]');
INSERT INTO public.entities VALUES ('model', 'f1', 'q', 'python', 'm', 'ada', '2026-11-15 12:00:00.123456+00', '2026-11-15 12:00:00.123456+00', 'ada', 'CREATED', 1, NULL, NULL, NULL, NULL, NULL, NULL, 'f1m', true, '{"labels":["both"]}', '{"source":{"handler":"h"}}', '{"note":"n"}', '[]');
INSERT INTO public.entities VALUES ('trigger', 'tr1', 'p', 'scheduler', 'nightly', 'ada', '2026-11-15 12:00:00.123456+00', '2026-11-15 12:00:00.123456+00', 'ada', 'CREATED', 1, NULL, NULL, NULL, NULL, NULL, NULL, 'tr1nightly', true, '{"description":"d"}', '{"source":{"handler":"h"}}', '{"note":"n"}', '[]');
INSERT INTO public.firings VALUES (1, 'tr1', '2026-11-14T00:00Z');
INSERT INTO public.firings VALUES (2, 'tr1', '2026-11-15T00:00Z');
INSERT INTO public.labels VALUES ('function', 'f1', 'both');
INSERT INTO public.labels VALUES ('function', 'f1', 'old');
INSERT INTO public.labels VALUES ('model', 'f1', 'both');
INSERT INTO public.labels VALUES ('run', 'r1', 'both');
INSERT INTO public.labels VALUES ('run', 'r1', 'run');
INSERT INTO public.meta VALUES ('installation', 'e9b78c7d2f08447f9c553905112d109a');
INSERT INTO public.meta VALUES ('epoch', '9306d4e68b6a4cddb0924a75d5e1a0b2');
INSERT INTO public.metrics VALUES ('function', 'f1', 'acc', '0.5');
INSERT INTO public.metrics VALUES ('run', 'r1', 'loss', '[1.0,0.5]');
INSERT INTO public.run_totals VALUES ('q', 1);
INSERT INTO public.run_totals VALUES ('p', 2);
INSERT INTO public.runs VALUES ('r1', 'p', 'python+job:run', 'r1', 'ada', '2026-11-15 12:00:00.123456+00', '2026-11-15 12:00:00.123456+00', 'ada', 'READY', 1, 'python://p/f:f1', 'python://p/f', NULL, NULL, 'python+job://p/t1', 'job', 'r1r1python://p/f:f1', 'hash of r1', NULL, NULL, false, 'run', 1, 0, '2026-11-15 12:00:00.123456+00', NULL, NULL, 'it''s €', 219023793, NULL, NULL, NULL, false, '{"labels":["both","run"]}', '{"task":"python+job://p/t1"}', '{}', '[]', '{"kind":"python+job:run","spec":{"b":1,"a":2}}', '{"a":1}', '[]', '[]');
INSERT INTO public.runs VALUES ('r2', 'q', 'python+job:run', 'r2', 'ada', '2026-11-15 12:00:00.123456+00', '2026-11-15 12:00:00.123456+00', 'ada', 'COMPLETED', 1, 'python://p/f:f1', 'python://p/f', NULL, NULL, 'python+job://p/t1', 'job', 'r2r2python://p/f:f1', 'hash of r2', NULL, NULL, false, 'run', 1, 0, NULL, NULL, NULL, NULL, 336025611, NULL, NULL, NULL, false, '{}', '{"task":"python+job://p/t1"}', '{}', '[]', '{"kind":"python+job:run","spec":{"b":1,"a":2}}', NULL, '[]', '[]');
INSERT INTO public.runs VALUES ('r3', 'p', 'python+job:run', 'r3', 'ada', '2026-11-15 12:00:00.123456+00', '2026-11-15 12:00:00.123456+00', 'ada', 'READY', 1, 'python://p/f:f1', 'python://p/f', NULL, NULL, 'python+job://p/t1', 'job', 'r3r3python://p/f:f1', 'hash of r3', NULL, NULL, false, 'run', 1, 0, '2026-11-15 12:00:00.123456+00', NULL, NULL, NULL, 1660971165, NULL, NULL, NULL, false, '{}', '{"task":"python+job://p/t1"}', '{}', '[]', '{"kind":"python+job:run","spec":{"b":1,"a":2}}', NULL, '[]', '[]');
INSERT INTO public.secrets VALUES ('p', 'key', 1, 'k', '\x0102', '\x03');
INSERT INTO public.shares VALUES ('s1', 'p', 'bob', 'editor');
INSERT INTO public.tombstones VALUES ('r3', 'p', '2026-11-16 07:31:36.98444+00');
INSERT INTO public.tombstones VALUES ('gone', 'q', '2026-11-16 07:31:36.990192+00');
INSERT INTO public.transitions VALUES ('r1', 1, 'READY', '2026-11-15 12:00:00.123456+00', 'ada', NULL, NULL);
INSERT INTO public.transitions VALUES ('r1', 2, 'READY', '2026-11-15 12:00:00.123456+00', 'ada', 'user.submit', NULL);
INSERT INTO public.transitions VALUES ('r2', 1, 'READY', '2026-11-15 12:00:00.123456+00', 'ada', NULL, NULL);
INSERT INTO public.transitions VALUES ('r3', 1, 'READY', '2026-11-15 12:00:00.123456+00', 'ada', NULL, NULL);
SELECT pg_catalog.setval('public.audit_sequence_seq', 1, true);
SELECT pg_catalog.setval('public.firings_sequence_seq', 2, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT pk_accounts PRIMARY KEY (name);
ALTER TABLE ONLY public.audit
    ADD CONSTRAINT pk_audit PRIMARY KEY (sequence);
ALTER TABLE ONLY public.entities
    ADD CONSTRAINT pk_entities PRIMARY KEY (type, id);
ALTER TABLE ONLY public.firings
    ADD CONSTRAINT pk_firings PRIMARY KEY (sequence);
ALTER TABLE ONLY public.labels
    ADD CONSTRAINT pk_labels PRIMARY KEY (type, id, label);
ALTER TABLE ONLY public.meta
    ADD CONSTRAINT pk_meta PRIMARY KEY (name);
ALTER TABLE ONLY public.metrics
    ADD CONSTRAINT pk_metrics PRIMARY KEY (type, id, name);
ALTER TABLE ONLY public.revisions
    ADD CONSTRAINT pk_revisions PRIMARY KEY (kind, name, revision);
ALTER TABLE ONLY public.run_totals
    ADD CONSTRAINT pk_run_totals PRIMARY KEY (project);
ALTER TABLE ONLY public.runs
    ADD CONSTRAINT pk_runs PRIMARY KEY (id);
ALTER TABLE ONLY public.secrets
    ADD CONSTRAINT pk_secrets PRIMARY KEY (project, name, version);
ALTER TABLE ONLY public.shares
    ADD CONSTRAINT pk_shares PRIMARY KEY (id);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT pk_tokens PRIMARY KEY (id);
ALTER TABLE ONLY public.tombstones
    ADD CONSTRAINT pk_tombstones PRIMARY KEY (run_id);
ALTER TABLE ONLY public.transitions
    ADD CONSTRAINT pk_transitions PRIMARY KEY (run_id, sequence);
ALTER TABLE ONLY public.firings
    ADD CONSTRAINT uq_firings_trigger_id_occasion UNIQUE (trigger_id, occasion);
ALTER TABLE ONLY public.shares
    ADD CONSTRAINT uq_shares_project_user UNIQUE (project, "user");
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT uq_tokens_hash UNIQUE (hash);
CREATE INDEX ix_audit_actor ON public.audit USING btree (actor, sequence);
CREATE INDEX ix_audit_at ON public.audit USING btree (at);
CREATE INDEX ix_audit_project ON public.audit USING btree (project, sequence);
CREATE INDEX ix_entities_all_created ON public.entities USING btree (type, created_at, id);
CREATE INDEX ix_entities_all_name ON public.entities USING btree (type, name, id);
CREATE INDEX ix_entities_created ON public.entities USING btree (project, type, created_at, id);
CREATE INDEX ix_entities_function ON public.entities USING btree (project, type, function, created_at, id);
CREATE INDEX ix_entities_latest ON public.entities USING btree (project, type, is_latest, created_at, id);
CREATE INDEX ix_entities_name ON public.entities USING btree (project, type, name, created_at, id);
CREATE INDEX ix_firings_last ON public.firings USING btree (trigger_id, sequence);
CREATE INDEX ix_labels_label ON public.labels USING btree (type, label, id);
CREATE INDEX ix_runs_all_created ON public.runs USING btree (created_at, id);
CREATE INDEX ix_runs_all_state ON public.runs USING btree (state, updated_at, id);
CREATE INDEX ix_runs_created ON public.runs USING btree (project, created_at, id);
CREATE INDEX ix_runs_due ON public.runs USING btree (due_at, id) WHERE (due_at IS NOT NULL);
CREATE INDEX ix_runs_function ON public.runs USING btree (project, function, created_at, id);
CREATE INDEX ix_runs_function_base ON public.runs USING btree (project, function_base, created_at, id);
CREATE INDEX ix_runs_state ON public.runs USING btree (project, state, created_at, id);
CREATE INDEX ix_runs_task ON public.runs USING btree (project, task, created_at, id);
CREATE INDEX ix_runs_updated ON public.runs USING btree (project, updated_at, id);
CREATE INDEX ix_secrets_key_id ON public.secrets USING btree (key_id);
CREATE INDEX ix_shares_user ON public.shares USING btree ("user", project);
CREATE INDEX ix_tokens_user ON public.tokens USING btree ("user", created_at, id);
CREATE UNIQUE INDEX uq_entities_secret_name ON public.entities USING btree (project, name) WHERE (type = 'secret'::text);
CREATE UNIQUE INDEX uq_entities_task_of_function ON public.entities USING btree (project, function, kind) WHERE (type = 'task'::text);
CREATE UNIQUE INDEX uq_entities_task_of_workflow ON public.entities USING btree (project, workflow, kind) WHERE (type = 'task'::text);
ALTER TABLE ONLY public.transitions
    ADD CONSTRAINT fk_transitions_run_id FOREIGN KEY (run_id) REFERENCES public.runs(id) ON DELETE CASCADE;
