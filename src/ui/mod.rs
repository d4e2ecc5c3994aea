//! The screen: a function of its own state and the engine's newest snapshot.

pub(crate) mod desk;
pub mod editor;
pub mod format;
pub mod keep;
pub mod keymap;
mod outside;
pub mod params;
pub mod people;
pub mod pick;
pub mod player;
pub mod replay;
pub mod rich;
pub mod run;
pub mod save;
pub mod search;
pub mod state;
pub mod talk;
mod terminal;
pub mod text;
pub mod theme;
pub mod transcript;
pub mod turn;
pub mod update;
pub mod view;
pub mod words;
