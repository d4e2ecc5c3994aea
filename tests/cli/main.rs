//! The commands of the real program: what goes in, what comes out, with which exit status.

mod harness;

mod ask;
mod bench;
mod config;
mod history;
mod models;
mod replay;
mod scope;
mod simulate;
