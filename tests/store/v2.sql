PRAGMA application_id = 1651798637;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE sessions(
    id INTEGER PRIMARY KEY AUTOINCREMENT, opened INTEGER NOT NULL, updated INTEGER NOT NULL,
    model TEXT NOT NULL DEFAULT '', focus INTEGER NOT NULL DEFAULT 0);
CREATE TABLE conversations(
    id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER REFERENCES sessions ON DELETE SET NULL,
    person TEXT NOT NULL, title TEXT NOT NULL DEFAULT '', system TEXT, model TEXT NOT NULL DEFAULT '',
    created INTEGER NOT NULL, updated INTEGER NOT NULL, leaf INTEGER);
CREATE INDEX conversations_updated ON conversations(updated);
CREATE INDEX conversations_session ON conversations(session);
CREATE TABLE messages(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE, node INTEGER NOT NULL, parent INTEGER,
    role TEXT NOT NULL CHECK(role IN ('system', 'user', 'assistant')), text TEXT NOT NULL, note TEXT,
    created INTEGER NOT NULL, model TEXT, sampling TEXT, figures TEXT,
    state TEXT NOT NULL CHECK(state IN ('streaming', 'whole', 'cut')), UNIQUE(conversation, node));
CREATE INDEX messages_parent ON messages(conversation, parent);
CREATE INDEX messages_streaming ON messages(conversation) WHERE state = 'streaming';
CREATE TABLE panes(
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, place INTEGER NOT NULL,
    conversation INTEGER REFERENCES conversations ON DELETE SET NULL, name TEXT NOT NULL, settings TEXT NOT NULL,
    draft TEXT NOT NULL, PRIMARY KEY(session, place));
INSERT INTO sessions VALUES(1, 1772384700000, 1772384760000, 'nano', 1);
INSERT INTO conversations VALUES(1, 1, 'bình', 'Đường về nhà', 'Be kind.', 'nano', 1772384700000, 1772384760000, 1);
INSERT INTO messages VALUES(1, 1, 0, NULL, 'user', 'Đường về nhà', NULL, 1772384700000, NULL, NULL, NULL, 'whole');
INSERT INTO messages VALUES(2, 1, 1, 0, 'assistant', 'Một câu trả lời.', 'stopped', 1772384710000, 'nano', '{"temperature":0.7}', '{"tokens":5}', 'whole');
INSERT INTO messages VALUES(3, 1, 2, 0, 'assistant', 'Một câu trả lời khác, hay hơn.', NULL, 1772384720000, 'nano', NULL, NULL, 'streaming');
INSERT INTO panes VALUES(1, 0, 1, 'bình', '{"temperature":0}', '');
INSERT INTO panes VALUES(1, 1, NULL, 'chi', '{}', 'a draft');
CREATE VIRTUAL TABLE words USING fts5(
        text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2');
    CREATE TRIGGER messages_in AFTER INSERT ON messages WHEN new.state <> 'streaming' BEGIN
        INSERT INTO words(rowid, text) VALUES(new.id, replace(replace(new.text, 'đ', 'd'), 'Đ', 'D'));
    END;
    CREATE TRIGGER messages_out AFTER DELETE ON messages WHEN old.state <> 'streaming' BEGIN
        DELETE FROM words WHERE rowid = old.id;
    END;
    CREATE TRIGGER messages_change AFTER UPDATE OF text, state ON messages
        WHEN old.state <> 'streaming' OR new.state <> 'streaming' BEGIN
        DELETE FROM words WHERE rowid = old.id;
        INSERT INTO words(rowid, text) SELECT new.id, replace(replace(new.text, 'đ', 'd'), 'Đ', 'D')
            WHERE new.state <> 'streaming';
    END;
    INSERT INTO words(rowid, text) SELECT id, replace(replace(text, 'đ', 'd'), 'Đ', 'D') FROM messages
        WHERE state <> 'streaming';
COMMIT;
