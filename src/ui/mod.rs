//! The screen: a function of its own state and the engine's newest snapshot.

pub mod editor;
pub mod format;
pub mod keymap;
pub mod people;
pub mod text;
pub mod theme;
pub mod transcript;
pub mod view;
