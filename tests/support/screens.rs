//! Snapshots to draw: one made by hand with everybody in another state, and any number of random ones.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use batchroom::batch::{RequestId, RowKind, UserId};
use batchroom::engine::api::*;
use batchroom::sampling::SamplingParams;
use batchroom::ui::people::{People, Person};
use batchroom::ui::state::{Better, Options};
use batchroom::ui::theme::{Colors, Theme};
use batchroom::ui::words::Lang;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;
use ratatui::buffer::Buffer;

/// The rows of a picture as text.
pub fn rows(buf: &Buffer) -> Vec<String> {
    let area = buf.area;
    let row = |y| {
        let mut line = String::new();
        let mut x = area.left();
        while x < area.right() {
            let symbol = buf[(x, y)].symbol();
            line.push_str(symbol);
            // A wide character has the next cell too.
            x += batchroom::ui::text::width(symbol).max(1) as u16;
        }
        line.trim_end().to_owned()
    };
    (area.top()..area.bottom()).map(row).collect()
}

/// How the screens of tests and benches are opened.
pub fn options() -> Options {
    Options {
        panes: 4,
        names: Vec::new(),
        fps: 30,
        theme: Theme::new(Colors::Indexed),
        readonly: false,
        mouse: false,
        bots: 0,
        bots_pause: None,
        bots_load: Default::default(),
        system: None,
        sampling: SamplingParams::default(),
        seed: Some(1),
        presets: Vec::new(),
        better_name: "smollm2".into(),
        better_title: "SmolLM2-135M-Instruct Q4_1".into(),
        better_bytes: 98_362_432,
        small_name: "nano".into(),
        better: Better::Absent,
        wanted: false,
        notice: None,
    }
}

pub const NAMES: [&str; 6] = ["ana", "bình", "chi", "dũng", "eva", "測試"];

/// A change of the limits in force.
pub fn more_seats() -> Change {
    Change::Limits { old: Limits { max_num_seqs: 4, ..Limits::default() }, new: Limits { max_num_seqs: 8, ..Limits::default() } }
}

pub fn people() -> People {
    let person = |(at, name): (usize, &&str)| Person {
        user: UserId(at as u32),
        name: (*name).to_owned(),
        letter: (b'a' + at as u8) as char,
        hue: at,
    };
    People::new(NAMES.iter().enumerate().map(person).collect(), Lang::En)
}

/// What each user did in each step, as one character: `D` decode, a digit for a chunk of so many times 16 prompt
/// tokens, `.` waiting, `x` preempted, `e` ended with its last decode, a blank for not there.
const SCRIPT: [&str; 6] = [
    "    999934DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD",
    "                                              .......99999999999",
    "999998DDDDDDDDDDDDDDDDDDDDDDDDDDe                               ",
    "           444444DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDx.........",
    "                                                      ..........",
    "                                                             ...",
];
/// The newest step of the script.
pub const STEP: u64 = 4182;
/// When user 3 was let in with a prefix that was there, and when a limit was changed.
pub const HIT: u64 = 4130;
pub const CHANGED: u64 = 4140;
const BUDGET: usize = 256;

fn timeline() -> Timeline {
    let columns: Vec<Vec<char>> = SCRIPT.iter().map(|row| row.chars().collect()).collect();
    let first = STEP + 1 - columns[0].len() as u64;
    (0..columns[0].len()).map(|at| Arc::new(record(first + at as u64, columns.iter().map(|row| row[at])))).collect()
}

fn record(step: u64, marks: impl Iterator<Item = char>) -> StepRecord {
    let us = Duration::from_micros;
    let mut record = StepRecord {
        step,
        at: us(5_100 * step),
        duration: us(5_100),
        parts: Some(StepParts { attention: us(900), products: us(3_700), sampling: us(250), scheduling: us(40) }),
        used_blocks: 164,
        cached_blocks: 12,
        total_blocks: 256,
        budget: BUDGET,
        ..StepRecord::default()
    };
    if step == CHANGED {
        record.between.push(Between::Changed(more_seats()));
    }
    if step == HIT {
        let admission = StepAdmission { user: UserId(3), request: RequestId(3), blocks: 9, cached: 32, again: false };
        record.admitted.push(admission);
    }
    for (at, mark) in marks.enumerate() {
        let user = UserId(at as u32);
        let mut row = |kind, tokens| record.rows.push(StepRow { user, request: RequestId(at as u64), kind, start: 0, tokens });
        match mark {
            'D' => row(RowKind::Decode, 1),
            'e' => {
                row(RowKind::Decode, 1);
                record.finished.push((user, FinishReason::Stop));
            }
            'x' => {
                record.preempted.push(StepPreemption { user, by: TakenBy::User(UserId(0)), lost: 310 });
                record.waiting.push((user, Waiting::Preempted { by: TakenBy::User(UserId(0)) }));
            }
            '.' => record.waiting.push((user, Waiting::Behind { ahead: 1 })),
            digit => {
                if let Some(sixteens) = digit.to_digit(10) {
                    row(RowKind::Prefill, sixteens as usize * 16);
                }
            }
        }
    }
    record.budget_used = record.rows.iter().map(|row| row.tokens).sum();
    record
}

fn user(at: usize, status: Status) -> UserView {
    UserView {
        user: UserId(at as u32),
        request: RequestId(at as u64),
        status,
        waiting: None,
        tokens_per_s: None,
        ttft: None,
        queued: None,
        itl_p95: None,
        context: 0,
        prompt_tokens: 0,
        generated_tokens: 0,
        kv_blocks: 0,
        preemptions: 0,
        cached_tokens: 0,
        predicted_ttft: None,
    }
}

fn users() -> Vec<UserView> {
    let ms = Duration::from_millis;
    let mut users = vec![
        user(0, Status::Decode),
        user(1, Status::Prefill { computed: 1370, total: 2140 }),
        user(2, Status::Finished(FinishReason::Stop)),
        user(3, Status::Preempted),
        user(4, Status::Waiting),
        user(5, Status::Waiting),
    ];
    users[0] = UserView {
        tokens_per_s: Some(212.4),
        ttft: Some(ms(48)),
        itl_p95: Some(ms(6)),
        context: 1310,
        kv_blocks: 82,
        ..users[0].clone()
    };
    users[1] = UserView { context: 2140, prompt_tokens: 2140, kv_blocks: 86, ..users[1].clone() };
    users[2] = UserView {
        tokens_per_s: Some(190.0),
        ttft: Some(ms(1210)),
        itl_p95: Some(Duration::from_micros(8_400)),
        context: 870,
        ..users[2].clone()
    };
    users[3] = UserView {
        waiting: Some(Waiting::Blocks { needed: 21, free: 12, watermark: 1 }),
        tokens_per_s: Some(88.0),
        ttft: Some(ms(95)),
        itl_p95: Some(ms(11)),
        context: 325,
        preemptions: 2,
        ..users[3].clone()
    };
    users[4] = UserView { waiting: Some(Waiting::Behind { ahead: 1 }), context: 40, ..users[4].clone() };
    users[5] = UserView {
        waiting: Some(Waiting::Budget { max_num_batched_tokens: 256, spent_on: vec![UserId(0), UserId(1)] }),
        context: 12,
        ..users[5].clone()
    };
    users
}

fn kv() -> KvView {
    // Runs of blocks as an allocator leaves them: 4 are held by two sequences and stand for neither.
    let runs = [
        (4, BlockOwner::Shared),
        (40, BlockOwner::User(UserId(0))),
        (30, BlockOwner::User(UserId(1))),
        (38, BlockOwner::User(UserId(0))),
        (12, BlockOwner::Cached),
        (52, BlockOwner::User(UserId(1))),
        (80, BlockOwner::Free),
    ];
    let owners: Vec<BlockOwner> = runs.iter().flat_map(|(count, owner)| vec![*owner; *count]).collect();
    KvView {
        block_size: 16,
        bytes_per_block: 16 * 46_080,
        total: 256,
        used: 164,
        cached: 12,
        free: 80,
        watermark: 1,
        capacity: 256,
        shared: owners.iter().filter(|owner| **owner == BlockOwner::Shared).count(),
        owners: Arc::from(owners),
        filled_slots: 2_600,
        reserved_max: 1_024,
    }
}

fn history() -> VecDeque<Sample> {
    let sample = |at: u64| {
        let wave = ((at as f64) / 9.0).sin();
        Sample {
            at: Duration::from_millis(500 * at),
            tokens_per_s: (430.0 + 400.0 * wave).max(0.0),
            batch: 2.5 + 1.5 * wave,
            queue: (at / 25) as usize % 4,
            ttft: at.is_multiple_of(7).then(|| Duration::from_millis(40 + at)),
            first_tokens: u32::from(at.is_multiple_of(7)),
            itl: Some(Duration::from_micros(4_400 + 20 * at)),
            gaps: 300,
            step: Some(Duration::from_micros(4_000 + 20 * at)),
            steps: 100,
            parts: Some(StepParts {
                attention: Duration::from_micros(600 + 10 * at),
                products: Duration::from_micros(3_000 + 5 * at),
                sampling: Duration::from_micros(200),
                scheduling: Duration::from_micros(30),
            }),
            used_blocks: 60 + at as usize,
            ..Sample::default()
        }
    };
    (0..110).map(sample).collect()
}

fn notes() -> VecDeque<Note> {
    let note = |step, kind| Note { step, kind };
    let long = Rejected::PromptTooLong { prompt: 9_120, max_model_len: 8_192 };
    [
        note(4150, NoteKind::Finished { user: UserId(2), reason: FinishReason::Stop, generated: 212 }),
        note(4164, NoteKind::Queued { user: UserId(1), prompt_tokens: 2140, ahead: 0 }),
        note(4171, NoteKind::Admitted { user: UserId(1), blocks: 9, cached: 32 }),
        note(4171, NoteKind::Chunk { user: UserId(1), start: 32, tokens: 144, last: false }),
        note(4173, NoteKind::Preempted { user: UserId(3), by: TakenBy::User(UserId(0)), lost: 310 }),
        note(4173, NoteKind::Queued { user: UserId(4), prompt_tokens: 40, ahead: 1 }),
        note(4179, NoteKind::Rejected { user: UserId(2), why: long }),
        note(4180, NoteKind::Queued { user: UserId(5), prompt_tokens: 12, ahead: 2 }),
    ]
    .into()
}

fn model() -> ModelInfo {
    ModelInfo {
        name: "smollm2".into(),
        title: "SmolLM2-135M-Instruct".into(),
        types: "Q4_1".into(),
        parameters: 134_515_008,
        weight_bytes: 98_000_000,
        kernels: "avx512-vnni".into(),
        threads: 2,
        vocab: 49_152,
        layers: 30,
        context: 8_192,
        kv_bytes_per_token: 46_080,
    }
}

fn latencies() -> Latencies {
    let times = |p50: f64| Summary {
        p50: Some(p50),
        p95: Some(2.0 * p50),
        p99: Some(2.6 * p50),
        mean: Some(1.1 * p50),
        max: Some(4.0 * p50),
    };
    Latencies { queue: times(0.012), ttft: times(0.09), tpot: times(0.0051), itl: times(0.0048), end_to_end: times(2.4) }
}

/// Six people, each in another state.
pub fn rich() -> Snapshot {
    Snapshot {
        state: RunState::Running,
        fault: None,
        pace: Pace::Full,
        model: Arc::new(model()),
        limits: Limits {
            max_num_seqs: 8,
            max_num_batched_tokens: BUDGET,
            prefill_chunk: 144,
            max_model_len: 8_192,
            max_waiting: 64,
            watermark: 1,
            ..Limits::default()
        },
        target_itl: None,
        prefill_budget: None,
        step: STEP,
        running: 2,
        waiting: 3,
        users: users(),
        kv: kv(),
        totals: Totals {
            steps: STEP,
            finished: 41,
            rejected: 1,
            preemptions: 3,
            tokens_per_s: 212.0,
            step_time: Some(Duration::from_micros(5_100)),
            ..Totals::default()
        },
        ledger: Arc::default(),
        latencies: latencies(),
        without: Vec::new(),
        prediction: Some(Prediction { requests: 41, error_median: 0.18, ratio_median: 1.05 }),
        witnesses_due: 0,
        timeline: timeline(),
        longer: Arc::new([history(), history(), VecDeque::new()]),
        history: history(),
        notes: notes(),
    }
}

/// An engine to which nobody has said anything yet.
pub fn fresh() -> Snapshot {
    let mut snapshot = rich();
    let total = snapshot.kv.total;
    snapshot.state = RunState::Idle;
    (snapshot.step, snapshot.running, snapshot.waiting) = (0, 0, 0);
    (snapshot.kv.used, snapshot.kv.cached, snapshot.kv.free) = (0, 0, total);
    (snapshot.kv.filled_slots, snapshot.kv.reserved_max) = (0, 0);
    snapshot.kv.owners = vec![BlockOwner::Free; total].into();
    snapshot.totals = Totals::default();
    snapshot.users.clear();
    snapshot.timeline = Timeline::default();
    snapshot.history.clear();
    snapshot.longer = Arc::default();
    (snapshot.latencies, snapshot.prediction) = (Latencies::default(), None);
    snapshot.notes.clear();
    snapshot
}

/// Numbers of any size, small ones most often.
pub struct Dice(pub ChaCha8Rng);

impl Dice {
    pub fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end.max(1) as u64) as usize
    }

    fn number(&mut self) -> usize {
        match self.below(8) {
            0 => 0,
            1 => usize::MAX / 4,
            2 => self.below(1 << 40),
            _ => self.below(3000),
        }
    }

    fn real(&mut self) -> f64 {
        match self.below(10) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -1.0,
            3 => 0.0,
            4 => 1e18,
            _ => self.below(100_000) as f64 / 37.0,
        }
    }

    fn time(&mut self) -> Option<Duration> {
        (self.below(3) > 0).then(|| Duration::from_micros(self.below(1 << 50) as u64))
    }

    fn user(&mut self) -> UserId {
        UserId(self.below(9) as u32)
    }

    fn users(&mut self) -> Vec<UserId> {
        (0..self.below(6)).map(|_| self.user()).collect()
    }

    fn reason(&mut self) -> FinishReason {
        use FinishReason::*;
        [Stop, Length, ContextFull, KvFull, Cancelled, Failed][self.below(6)]
    }

    fn waiting(&mut self) -> Option<Waiting> {
        Some(match self.below(8) {
            0 => Waiting::Seats { running: self.number(), max_num_seqs: self.number() },
            1 => Waiting::Budget { max_num_batched_tokens: self.number(), spent_on: self.users() },
            2 => Waiting::Blocks { needed: self.number(), free: self.number(), watermark: self.number() },
            3 => Waiting::Behind { ahead: self.number() },
            4 => Waiting::Preempted { by: self.taken_by() },
            5 => Waiting::PreemptionStep,
            6 => Waiting::NotYet,
            _ => return None,
        })
    }

    fn view(&mut self, at: usize) -> UserView {
        let status = match self.below(5) {
            0 => Status::Waiting,
            1 => Status::Prefill { computed: self.number(), total: self.number() },
            2 => Status::Decode,
            3 => Status::Preempted,
            _ => Status::Finished(self.reason()),
        };
        UserView {
            waiting: self.waiting(),
            tokens_per_s: (self.below(2) > 0).then(|| self.real()),
            ttft: self.time(),
            itl_p95: self.time(),
            context: self.number(),
            kv_blocks: self.number(),
            preemptions: self.number() as u32,
            ..user(at, status)
        }
    }

    fn record(&mut self, step: u64) -> StepRecord {
        let row = |dice: &mut Dice| StepRow {
            user: dice.user(),
            request: RequestId(dice.below(4) as u64),
            kind: if dice.below(2) > 0 { RowKind::Decode } else { RowKind::Prefill },
            start: dice.number(),
            tokens: dice.below(400),
        };
        StepRecord {
            step,
            at: self.time().unwrap_or_default(),
            duration: self.time().unwrap_or_default(),
            parts: self.time().map(|time| StepParts { attention: time, products: time, ..StepParts::default() }),
            rows: (0..self.below(8)).map(|_| row(self)).collect(),
            admitted: (0..self.below(2)).map(|_| self.admission()).collect(),
            preempted: (0..self.below(3)).map(|_| self.preemption()).collect(),
            finished: (0..self.below(3)).map(|_| (self.user(), self.reason())).collect(),
            waiting: (0..self.below(4)).map(|_| (self.user(), self.waiting().unwrap_or(Waiting::NotYet))).collect(),
            between: (0..self.below(2)).map(|_| self.between()).collect(),
            used_blocks: self.number(),
            cached_blocks: self.number(),
            total_blocks: self.number(),
            budget_used: self.number(),
            budget: self.number(),
            prefill_budget: (self.below(2) > 0).then(|| self.number()),
        }
    }

    fn admission(&mut self) -> StepAdmission {
        let (blocks, cached, again) = (self.number(), self.number(), self.below(2) > 0);
        StepAdmission { user: self.user(), request: RequestId(self.below(4) as u64), blocks, cached, again }
    }

    fn preemption(&mut self) -> StepPreemption {
        StepPreemption { user: self.user(), by: self.taken_by(), lost: self.number() }
    }

    fn between(&mut self) -> Between {
        match self.below(3) {
            0 => Between::Refused { user: self.user(), why: self.rejected() },
            1 => Between::Changed(self.change()),
            _ => Between::ChangeRefused(self.not_changed()),
        }
    }

    fn rejected(&mut self) -> Rejected {
        let text = "\u{1b}[31m{{ 測試 }}\n\n".repeat(self.below(9));
        match self.below(5) {
            0 => Rejected::Template(text),
            1 => Rejected::Words(text),
            2 => Rejected::EngineGone(text),
            3 => Rejected::TooManyBytes { bytes: self.number(), max_model_len: self.number() },
            _ => Rejected::UnknownToken { token: self.number() as u32, vocab: self.number() },
        }
    }

    fn change(&mut self) -> Change {
        let limits = |dice: &mut Dice| Limits {
            max_num_seqs: dice.number(),
            prefix_cache: dice.below(2) > 0,
            watermark: dice.number(),
            ..Limits::default()
        };
        match self.below(3) {
            0 => Change::Limits { old: limits(self), new: limits(self) },
            1 => Change::KvBlocks { old: self.number(), new: self.number() },
            _ => Change::TargetItl { old: self.time(), new: self.time() },
        }
    }

    fn not_changed(&mut self) -> NotChanged {
        match self.below(4) {
            0 => NotChanged::OverContext { max_model_len: self.number(), context: self.number() },
            1 => InvalidLimits::Zero("prefill_chunk").into(),
            2 => InvalidLimits::BudgetBelowSeats { budget: self.number(), seats: self.number() }.into(),
            _ => InvalidLimits::BelowLent { blocks: self.number(), lent: self.number() }.into(),
        }
    }

    fn recording_end(&mut self) -> RecordingEnd {
        match self.below(3) {
            0 => RecordingEnd::Full,
            1 => RecordingEnd::Disk { error: "no\u{7}\n".repeat(self.below(40)) },
            _ => RecordingEnd::Words("\u{1b}[31mno\n".repeat(self.below(40))),
        }
    }

    fn taken_by(&mut self) -> TakenBy {
        match self.below(4) {
            0 => TakenBy::Itself,
            1 => TakenBy::Seats,
            2 => TakenBy::KvBudget,
            _ => TakenBy::User(self.user()),
        }
    }

    fn note(&mut self) -> Note {
        let user = self.user();
        let kind = match self.below(9) {
            6 => NoteKind::Changed { what: self.change() },
            7 => NoteKind::ChangeRefused { why: self.not_changed() },
            8 => NoteKind::RecordingEnded { why: self.recording_end() },
            5 => NoteKind::Chunk { user, start: self.number(), tokens: self.number(), last: self.below(2) > 0 },
            0 => NoteKind::Queued { user, prompt_tokens: self.number(), ahead: self.number() },
            1 => NoteKind::Admitted { user, blocks: self.number(), cached: self.number() },
            2 => NoteKind::Preempted { user, by: self.taken_by(), lost: self.number() },
            3 => NoteKind::Finished { user, reason: self.reason(), generated: self.number() },
            _ => NoteKind::Rejected { user, why: self.rejected() },
        };
        Note { step: self.number() as u64, kind }
    }

    /// Anything that the types allow, whether an engine could say it or not.
    pub fn snapshot(&mut self) -> Snapshot {
        let first = self.number() as u64;
        let blocks = self.below(3000);
        let owner = |dice: &mut Dice| match dice.below(6) {
            0 => BlockOwner::Free,
            1 => BlockOwner::Cached,
            2 => BlockOwner::Shared,
            _ => BlockOwner::User(dice.user()),
        };
        let mut snapshot = rich();
        snapshot.state = [RunState::Idle, RunState::Running, RunState::Paused, RunState::Stopped][self.below(4)];
        snapshot.fault = (self.below(2) > 0).then(|| "\u{1b}]0;owned\u{7} it broke".to_owned());
        snapshot.pace = if self.below(2) > 0 { Pace::StepsPerSecond(self.real()) } else { Pace::Full };
        snapshot.model = Arc::new(ModelInfo { title: "\u{1b}[2J測".repeat(self.below(9)), threads: self.number(), ..model() });
        (snapshot.running, snapshot.waiting, snapshot.step) = (self.number(), self.number(), first);
        (snapshot.limits.max_num_seqs, snapshot.limits.max_model_len) = (self.number(), self.number());
        snapshot.users = (0..self.below(9)).map(|at| self.view(at)).collect();
        snapshot.kv = KvView {
            block_size: self.number(),
            bytes_per_block: self.number(),
            total: self.number(),
            used: self.number(),
            cached: self.number(),
            free: self.number(),
            watermark: self.number(),
            capacity: self.number(),
            shared: self.number(),
            owners: (0..blocks).map(|_| owner(self)).collect(),
            filled_slots: self.number(),
            reserved_max: self.number(),
        };
        snapshot.totals.tokens_per_s = self.real();
        snapshot.totals.step_time = self.time();
        snapshot.timeline = (0..self.below(150) as u64).map(|at| Arc::new(self.record(first + at))).collect();
        let sample = |dice: &mut Dice| Sample {
            at: Duration::ZERO,
            tokens_per_s: dice.real(),
            batch: dice.real(),
            queue: dice.number(),
            ttft: dice.time(),
            step: dice.time(),
            itl: dice.time(),
            parts: dice.time().map(|time| StepParts { attention: time, sampling: time, ..StepParts::default() }),
            ..Sample::default()
        };
        let series = |dice: &mut Dice| (0..dice.below(200)).map(|_| sample(dice)).collect();
        snapshot.longer = Arc::new([series(self), series(self), series(self)]);
        snapshot.history = (0..self.below(200)).map(|_| sample(self)).collect();
        snapshot.notes = (0..self.below(30)).map(|_| self.note()).collect();
        snapshot
    }
}
