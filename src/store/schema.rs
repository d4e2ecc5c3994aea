//! The tables, and how those of an older version become them.

use rusqlite::Connection;

use super::fault::Fault;

/// The format that this program writes: `user_version` of the file.
pub const VERSION: i64 = MIGRATIONS.len() as i64;

/// "btrm" in `application_id`: what kind of database this is.
const APPLICATION: i64 = 0x6274_726d;

/// From nothing to format 1, from 1 to 2, and so on. A line that was published is never changed, only followed.
const MIGRATIONS: [&str; 3] = [
    // Conversations are trees of messages; `leaf` is the end of the path that is shown. Times are milliseconds since 1970.
    "CREATE TABLE sessions(
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
        draft TEXT NOT NULL, PRIMARY KEY(session, place));",
    // The index of all words of ended messages, without their marks; đ has none in Unicode, so it is written as d.
    "CREATE VIRTUAL TABLE words USING fts5(
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
        WHERE state <> 'streaming';",
    // What was typed and not sent in a pane that is no longer there. That of a pane that is open stands with the pane.
    "CREATE TABLE drafts(
        conversation INTEGER PRIMARY KEY REFERENCES conversations ON DELETE CASCADE, text TEXT NOT NULL);",
];

/// Makes the tables, or brings older ones up to date, or says why not.
pub fn bring_up_to_date(db: &mut Connection) -> Result<(), Fault> {
    let version = version(db)?;
    if version > VERSION {
        return Err(Fault::Newer { found: version, known: VERSION });
    }
    let (application, tables): (i64, i64) = db.query_row(
        "SELECT (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let fresh = version == 0 && application == 0 && tables == 0;
    if !fresh && (application != APPLICATION || version < 1) {
        return Err(Fault::Foreign);
    }
    if version < VERSION {
        // Another program may be at it too: only one of them finds the old version here.
        let change = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let version = self::version(&change)?;
        if version > VERSION {
            return Err(Fault::Newer { found: version, known: VERSION });
        }
        for step in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0)) {
            change.execute_batch(step)?;
        }
        change.pragma_update(None, "application_id", APPLICATION)?;
        change.pragma_update(None, "user_version", VERSION)?;
        change.commit()?;
    }
    compare(db)
}

/// Whether it can be read as it is; nothing is changed.
pub fn is_up_to_date(db: &Connection) -> Result<(), Fault> {
    let found = version(db)?;
    let application: i64 = db.query_row("SELECT application_id FROM pragma_application_id", [], |row| row.get(0))?;
    match found {
        _ if application != APPLICATION || found < 1 => Err(Fault::Foreign),
        newer if newer > VERSION => Err(Fault::Newer { found, known: VERSION }),
        older if older < VERSION => Err(Fault::Older { found, known: VERSION }),
        _ => compare(db),
    }
}

fn version(db: &Connection) -> Result<i64, Fault> {
    Ok(db.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// A view in place of a table, or a trigger more, would run what somebody else wrote: the schema has to be ours to the
/// letter.
fn compare(db: &Connection) -> Result<(), Fault> {
    let ours = Connection::open_in_memory()?;
    for step in MIGRATIONS {
        ours.execute_batch(step)?;
    }
    // SQLite's own: statistics, and what it keeps for AUTOINCREMENT.
    const OBJECTS: &str = "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' \
         ORDER BY type, name LIMIT 100";
    let objects = |db: &Connection| -> Result<Vec<[String; 4]>, rusqlite::Error> {
        let mut statement = db.prepare(OBJECTS)?;
        // How it is laid out in lines is no difference.
        let plain = |sql: String| sql.split_whitespace().collect::<Vec<_>>().join(" ");
        let rows = statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, plain(row.get(3)?)]))?;
        rows.collect()
    };
    if objects(db)? == objects(&ours)? { Ok(()) } else { Err(Fault::Damaged("its tables are not those of batchroom".into())) }
}
