//! Drawing: one file a pane or panel, all of them pure.
