//! Drawing: one file a pane or panel, all of them pure.

pub mod charts;
pub mod form;
pub mod header;
pub mod history;
pub mod kv;
mod lanes;
pub mod layout;
pub mod ledger;
pub mod look;
pub mod machine;
pub mod notes;
pub mod pane;
mod panel;
pub mod popup;
pub mod screen;
pub mod settings;
pub mod signals;
pub mod status;
pub mod step;
pub mod talk;
pub mod timeline;
pub mod times;
pub mod users;

#[cfg(test)]
pub(super) use lanes::signs;
