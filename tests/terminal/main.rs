//! The real program, end to end, in a pseudo-terminal: what a person types and what is then on the screen.

mod harness;

mod chat;
mod input;
mod life;
mod model;
mod outside;
mod panes;
mod plain;
mod replay;
mod reports;
mod slow;
mod start;
mod store;
mod stray;
mod suspend;
