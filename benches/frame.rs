//! One frame of the whole screen at 200x60: measured, drawn, compared with the frame before and handed to a terminal
//! that is memory. Two screens alternate, so that there is something to compare.

use std::hint::black_box;
use std::sync::Arc;

#[path = "../tests/support/screens.rs"]
mod sample;

use batchroom::batch::UserId;
use batchroom::engine::api::Snapshot;
use batchroom::text::Role;
use batchroom::ui::state::State;
use batchroom::ui::view::screen;
use criterion::{Criterion, criterion_group, criterion_main};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use sample::{fresh, options, rich};

const TEXT: &str = "It is a way of letting new requests join between steps, and of letting those that have ended go. ";

/// Four people in mid-conversation, with so many sentences each.
fn busy(sentences: usize) -> State {
    let snapshot = Snapshot { model: fresh().model, ..rich() };
    let mut state = State::new(options(), Arc::new(snapshot), 7);
    for (at, pane) in state.panes.iter_mut().enumerate() {
        pane.person.user = UserId(at as u32);
        pane.transcript.push(Role::User, "What is continuous batching?");
        pane.transcript.push(Role::Assistant, &TEXT.repeat(sentences + at));
        pane.live = true;
    }
    state
}

fn frame(c: &mut Criterion) {
    let mut terminal = Terminal::new(TestBackend::new(200, 60)).expect("a terminal of memory");
    let mut states = [busy(20), busy(21)];
    c.bench_function("frame/200x60", |b| {
        b.iter(|| {
            states.swap(0, 1);
            let drawn = terminal.draw(|frame| {
                let area = frame.area();
                screen::measure(&mut states[0], area);
                black_box(screen::draw(frame.buffer_mut(), area, &states[0]));
            });
            drawn.expect("drawn");
        });
    });
}

criterion_group!(benches, frame);
criterion_main!(benches);
