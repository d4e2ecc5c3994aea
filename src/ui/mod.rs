//! The screen: a function of its own state and the engine's newest snapshot.

pub mod ascii;
pub mod bots;
pub mod editor;
pub mod format;
pub mod fuzzy;
pub mod keymap;
pub mod mouse;
mod outlet;
pub mod params;
pub mod people;
pub mod player;
pub mod replay;
pub mod run;
pub mod settings;
pub mod state;
mod terminal;
pub mod text;
pub mod theme;
pub mod transcript;
pub mod update;
pub mod view;
pub mod words;
