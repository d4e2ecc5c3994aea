//! Drawing: one file a pane or panel, all of them pure.

pub mod charts;
pub mod form;
pub mod header;
pub mod history;
pub mod kv;
pub mod layout;
pub mod notes;
pub mod pane;
mod panel;
pub mod popup;
pub mod screen;
pub mod settings;
pub mod status;
pub mod talk;
pub mod timeline;
pub mod users;
