//! The screen: a function of its own state and the engine's newest snapshot.

pub mod editor;
pub mod format;
pub mod keymap;
pub mod machine;
pub mod params;
pub mod people;
pub mod player;
pub mod replay;
pub mod run;
pub mod state;
mod terminal;
pub mod text;
pub mod theme;
pub mod transcript;
pub mod update;
pub mod view;
pub mod words;
