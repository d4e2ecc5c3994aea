//! Drawing: one file a pane or panel, all of them pure.

pub mod charts;
pub mod header;
pub mod kv;
pub mod notes;
pub mod panel;
pub mod timeline;
pub mod users;
