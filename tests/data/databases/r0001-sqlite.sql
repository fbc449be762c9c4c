BEGIN TRANSACTION;
CREATE TABLE accounts (
	name TEXT NOT NULL, 
	password_hash TEXT, 
	is_admin BOOLEAN NOT NULL, 
	is_disabled BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_accounts PRIMARY KEY (name)
);
INSERT INTO "accounts" VALUES('ada',NULL,0,0,1794744000123456);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE audit (
	sequence INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at BIGINT NOT NULL, 
	actor TEXT NOT NULL, 
	action TEXT NOT NULL, 
	project TEXT, 
	type TEXT, 
	id TEXT, 
	result TEXT NOT NULL, 
	address TEXT, 
	details TEXT NOT NULL
);
INSERT INTO "audit" VALUES(1,1794744000123456,'ada','run.create','p','run','r1','ok',NULL,'{}');
CREATE TABLE entities (
	type TEXT NOT NULL, 
	id TEXT NOT NULL, 
	project TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	user TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	updated_by TEXT NOT NULL, 
	state TEXT NOT NULL, 
	revision BIGINT NOT NULL, 
	function TEXT, 
	function_base TEXT, 
	workflow TEXT, 
	workflow_base TEXT, 
	task TEXT, 
	action TEXT, 
	search TEXT NOT NULL, 
	is_latest BOOLEAN NOT NULL, 
	metadata TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	status TEXT NOT NULL, 
	extensions TEXT NOT NULL, 
	CONSTRAINT pk_entities PRIMARY KEY (type, id)
);
INSERT INTO "entities" VALUES('project','p','p','project','p','ada',1794744000123456,1794744000123456,'ada','CREATED',1,NULL,NULL,NULL,NULL,NULL,NULL,'pp',1,'{"description":"d"}','{"source":{"handler":"h"}}','{"note":"n"}','[]');
INSERT INTO "entities" VALUES('project','q','q','project','q','ada',1794744000123456,1794744000123456,'ada','CREATED',1,NULL,NULL,NULL,NULL,NULL,NULL,'qq',1,'{"description":"d"}','{"source":{"handler":"h"}}','{"note":"n"}','[]');
INSERT INTO "entities" VALUES('function','f1','p','python','f','ada',1794744000123456,1794744000123456,'ada','CREATED',1,NULL,NULL,NULL,NULL,NULL,NULL,'f1f',0,'{"labels":["old","both"]}','{"source":{"handler":"h"}}','{"note":"n"}','[]');
INSERT INTO "entities" VALUES('function','f2','p','python','f','ada',1794744001123456,1794744000123456,'ada','CREATED',1,NULL,NULL,NULL,NULL,NULL,NULL,'f2f',1,'{"description":"d"}','{"source":{"handler":"h"}}','{"note":"n"}','[]');
INSERT INTO "entities" VALUES('task','t1','p','python+job','t1','ada',1794744000123456,1794744000123456,'ada','CREATED',1,'python://p/f:f1','python://p/f',NULL,NULL,NULL,'job','t1t1',1,'{"description":"d"}','{"function":"python://p/f:f1"}','{"note":"n"}','[]');
INSERT INTO "entities" VALUES('model','f1','q','python','m','ada',1794744000123456,1794744000123456,'ada','CREATED',1,NULL,NULL,NULL,NULL,NULL,NULL,'f1m',1,'{"labels":["both"]}','{"source":{"handler":"h"}}','{"note":"n"}','[]');
INSERT INTO "entities" VALUES('trigger','tr1','p','scheduler','nightly','ada',1794744000123456,1794744000123456,'ada','CREATED',1,NULL,NULL,NULL,NULL,NULL,NULL,'tr1nightly',1,'{"description":"d"}','{"source":{"handler":"h"}}','{"note":"n"}','[]');
CREATE TABLE firings (
	sequence INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	trigger_id TEXT NOT NULL, 
	occasion TEXT NOT NULL, 
	CONSTRAINT uq_firings_trigger_id_occasion UNIQUE (trigger_id, occasion)
);
INSERT INTO "firings" VALUES(1,'tr1','2026-11-14T00:00Z');
INSERT INTO "firings" VALUES(2,'tr1','2026-11-15T00:00Z');
CREATE TABLE labels (
	type TEXT NOT NULL, 
	id TEXT NOT NULL, 
	label TEXT NOT NULL, 
	CONSTRAINT pk_labels PRIMARY KEY (type, id, label)
);
INSERT INTO "labels" VALUES('function','f1','both');
INSERT INTO "labels" VALUES('function','f1','old');
INSERT INTO "labels" VALUES('model','f1','both');
INSERT INTO "labels" VALUES('run','r1','both');
INSERT INTO "labels" VALUES('run','r1','run');
CREATE TABLE meta (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_meta PRIMARY KEY (name)
);
INSERT INTO "meta" VALUES('installation','a81b91e5c98d462484a098af64e3e577');
INSERT INTO "meta" VALUES('epoch','0b1a266a8fda4577abad0b59bd4b5b34');
CREATE TABLE metrics (
	type TEXT NOT NULL, 
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_metrics PRIMARY KEY (type, id, name)
);
INSERT INTO "metrics" VALUES('function','f1','acc','0.5');
INSERT INTO "metrics" VALUES('run','r1','loss','[1.0,0.5]');
CREATE TABLE revisions (
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	revision BIGINT NOT NULL, 
	document TEXT, 
	user TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	CONSTRAINT pk_revisions PRIMARY KEY (kind, name, revision)
);
CREATE TABLE run_totals (
	project TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	CONSTRAINT pk_run_totals PRIMARY KEY (project)
);
INSERT INTO "run_totals" VALUES('p',2);
INSERT INTO "run_totals" VALUES('q',1);
CREATE TABLE runs (
	id TEXT NOT NULL, 
	project TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	user TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	updated_by TEXT NOT NULL, 
	state TEXT NOT NULL, 
	revision BIGINT NOT NULL, 
	function TEXT, 
	function_base TEXT, 
	workflow TEXT, 
	workflow_base TEXT, 
	task TEXT, 
	action TEXT, 
	search TEXT NOT NULL, 
	request_hash TEXT NOT NULL, 
	profile_revision BIGINT, 
	policy_revision BIGINT, 
	is_local BOOLEAN NOT NULL, 
	desired TEXT NOT NULL, 
	desired_generation BIGINT NOT NULL, 
	observed_generation BIGINT NOT NULL, 
	due_at BIGINT, 
	anchor_uid TEXT, 
	reason TEXT, 
	message TEXT, 
	shard_key INTEGER NOT NULL, 
	lease_owner TEXT, 
	lease_token TEXT, 
	lease_until BIGINT, 
	is_nudged BOOLEAN NOT NULL, 
	metadata TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	status TEXT NOT NULL, 
	extensions TEXT NOT NULL, 
	request TEXT NOT NULL, 
	effective TEXT, 
	provenance TEXT NOT NULL, 
	warnings TEXT NOT NULL, 
	CONSTRAINT pk_runs PRIMARY KEY (id)
);
INSERT INTO "runs" VALUES('r1','p','python+job:run','r1','ada',1794744000123456,1794744000123456,'ada','READY',1,'python://p/f:f1','python://p/f',NULL,NULL,'python+job://p/t1','job','r1r1python://p/f:f1','hash of r1',NULL,NULL,0,'run',1,0,1794744000123456,NULL,NULL,'it''s €',219023793,NULL,NULL,NULL,0,'{"labels":["both","run"]}','{"task":"python+job://p/t1"}','{}','[]','{"kind":"python+job:run","spec":{"b":1,"a":2}}','{"a":1}','[]','[]');
INSERT INTO "runs" VALUES('r2','q','python+job:run','r2','ada',1794744000123456,1794744000123456,'ada','COMPLETED',1,'python://p/f:f1','python://p/f',NULL,NULL,'python+job://p/t1','job','r2r2python://p/f:f1','hash of r2',NULL,NULL,0,'run',1,0,NULL,NULL,NULL,NULL,336025611,NULL,NULL,NULL,0,'{}','{"task":"python+job://p/t1"}','{}','[]','{"kind":"python+job:run","spec":{"b":1,"a":2}}',NULL,'[]','[]');
INSERT INTO "runs" VALUES('r3','p','python+job:run','r3','ada',1794744000123456,1794744000123456,'ada','READY',1,'python://p/f:f1','python://p/f',NULL,NULL,'python+job://p/t1','job','r3r3python://p/f:f1','hash of r3',NULL,NULL,0,'run',1,0,1794744000123456,NULL,NULL,NULL,1660971165,NULL,NULL,NULL,0,'{}','{"task":"python+job://p/t1"}','{}','[]','{"kind":"python+job:run","spec":{"b":1,"a":2}}',NULL,'[]','[]');
CREATE TABLE secrets (
	project TEXT NOT NULL, 
	name TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	key_id TEXT NOT NULL, 
	wrapped_key BLOB NOT NULL, 
	ciphertext BLOB NOT NULL, 
	CONSTRAINT pk_secrets PRIMARY KEY (project, name, version)
);
INSERT INTO "secrets" VALUES('p','key',1,'k',X'0102',X'03');
CREATE TABLE shares (
	id TEXT NOT NULL, 
	project TEXT NOT NULL, 
	user TEXT NOT NULL, 
	role TEXT NOT NULL, 
	CONSTRAINT pk_shares PRIMARY KEY (id), 
	CONSTRAINT uq_shares_project_user UNIQUE (project, user)
);
INSERT INTO "shares" VALUES('s1','p','bob','editor');
CREATE TABLE tokens (
	id TEXT NOT NULL, 
	user TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	name TEXT NOT NULL, 
	scopes TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	revoked_at BIGINT, 
	last_used_at BIGINT, 
	CONSTRAINT pk_tokens PRIMARY KEY (id), 
	CONSTRAINT uq_tokens_hash UNIQUE (hash)
);
CREATE TABLE tombstones (
	run_id TEXT NOT NULL, 
	project TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	CONSTRAINT pk_tombstones PRIMARY KEY (run_id)
);
INSERT INTO "tombstones" VALUES('r3','p',1794814283789000);
INSERT INTO "tombstones" VALUES('gone','q',1794814283802000);
CREATE TABLE transitions (
	run_id TEXT NOT NULL, 
	sequence BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	actor TEXT NOT NULL, 
	reason TEXT, 
	message TEXT, 
	CONSTRAINT pk_transitions PRIMARY KEY (run_id, sequence), 
	CONSTRAINT fk_transitions_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "transitions" VALUES('r1',1,'READY',1794744000123456,'ada',NULL,NULL);
INSERT INTO "transitions" VALUES('r1',2,'READY',1794744000123456,'ada','user.submit',NULL);
INSERT INTO "transitions" VALUES('r2',1,'READY',1794744000123456,'ada',NULL,NULL);
INSERT INTO "transitions" VALUES('r3',1,'READY',1794744000123456,'ada',NULL,NULL);
CREATE INDEX ix_entities_latest ON entities (project, type, is_latest, created_at, id);
CREATE INDEX ix_entities_created ON entities (project, type, created_at, id);
CREATE INDEX ix_entities_name ON entities (project, type, name, created_at, id);
CREATE INDEX ix_entities_function ON entities (project, type, function, created_at, id);
CREATE INDEX ix_entities_all_created ON entities (type, created_at, id);
CREATE INDEX ix_entities_all_name ON entities (type, name, id);
CREATE UNIQUE INDEX uq_entities_task_of_function ON entities (project, function, kind) WHERE type = 'task';
CREATE UNIQUE INDEX uq_entities_task_of_workflow ON entities (project, workflow, kind) WHERE type = 'task';
CREATE UNIQUE INDEX uq_entities_secret_name ON entities (project, name) WHERE type = 'secret';
CREATE INDEX ix_labels_label ON labels (type, label, id);
CREATE INDEX ix_runs_search ON runs (project, created_at, id, search);
CREATE INDEX ix_runs_state ON runs (project, state, created_at, id);
CREATE INDEX ix_runs_function ON runs (project, function, created_at, id);
CREATE INDEX ix_runs_function_base ON runs (project, function_base, created_at, id);
CREATE INDEX ix_runs_task ON runs (project, task, created_at, id);
CREATE INDEX ix_runs_updated ON runs (project, updated_at, id);
CREATE INDEX ix_runs_all_created ON runs (created_at, id);
CREATE INDEX ix_runs_all_state ON runs (state, updated_at, id);
CREATE INDEX ix_runs_due ON runs (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX ix_secrets_key_id ON secrets (key_id);
CREATE INDEX ix_tokens_user ON tokens (user, created_at, id);
CREATE INDEX ix_shares_user ON shares (user, project);
CREATE INDEX ix_audit_at ON audit (at);
CREATE INDEX ix_audit_project ON audit (project, sequence);
CREATE INDEX ix_audit_actor ON audit (actor, sequence);
CREATE INDEX ix_firings_last ON firings (trigger_id, sequence);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('firings',2);
INSERT INTO "sqlite_sequence" VALUES('audit',1);
COMMIT;
