//! The engine seen from outside: cheap to clone, never waits for a step.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc as command;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::Model;
use super::api::*;
use super::clock::StoppedTime;
use super::core::{Core, whole_micros};
use super::recorder::{Recorder, Recording, Shared};
use super::trace::{Header, KvHeader, VERSION, micros};
use super::worker::Worker;
use crate::batch::{RequestId, UserId};
use crate::sampling::SamplingParams;
use crate::scheduler::InvalidLimits;
use crate::text::{Message, Role, TemplateError, TextModel, TokenizerError};

/// Commands that may wait for the engine thread at once.
const COMMANDS: usize = 4096;
/// Events that a request may have beside its tokens and still get them all.
const EVENT_ROOM: usize = 64;
/// Bytes of a conversation that are worth tokenizing at all, per token of context: no tokenizer in use packs more.
const MAX_BYTES_PER_TOKEN: usize = 128;

/// What an engine is started with.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    pub limits: Limits,
    /// The KV budget at the beginning, and what it can be raised to: what the model has memory for.
    pub num_blocks: usize,
    pub capacity: usize,
    pub target_itl: Option<Duration>,
    pub block_size: usize,
    pub pace: Pace,
    pub model: ModelInfo,
}

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Limits(#[from] InvalidLimits),
    #[error("the engine's thread cannot be started ({0}): end other programs, or raise the limit on processes (ulimit -u)")]
    Thread(std::io::Error),
    #[error("the trace cannot be written ({0}): free some space, or leave --record out")]
    Record(std::io::Error),
}

/// Starts an engine thread that owns `model`. It ends on `shutdown`, or when every handle is gone and its work
/// is done.
pub fn start(model: Box<dyn Model>, text: Arc<TextModel>, options: EngineOptions) -> Result<EngineHandle, StartError> {
    start_recorded(model, text, options, None)
}

/// The same, and writes down what the engine is told and what its model answers.
pub fn start_recorded(
    model: Box<dyn Model>,
    text: Arc<TextModel>,
    options: EngineOptions,
    recording: Option<Recording>,
) -> Result<EngineHandle, StartError> {
    start_on(std::thread::Builder::new().name("engine".into()), model, text, options, recording)
}

fn start_on(
    thread: std::thread::Builder,
    model: Box<dyn Model>,
    text: Arc<TextModel>,
    options: EngineOptions,
    recording: Option<Recording>,
) -> Result<EngineHandle, StartError> {
    let sizes = (options.num_blocks, options.capacity, options.block_size);
    let mut core = Core::new(options.limits, sizes, Arc::new(options.model.clone()))?;
    core.pace = options.pace;
    core.cost.set_target(options.target_itl.map(whole_micros));
    let recorder = recording.map(|recording| {
        let header = header(&options, recording.started_unix_ms);
        Recorder::start(recording, &header).map_err(StartError::Record)
    });
    let recorder = recorder.transpose()?;
    let recorded = recorder.as_ref().map(Recorder::shared);
    let (commands, inbox) = command::sync_channel(COMMANDS);
    let worker = Worker::new(core, model, text.clone(), inbox, recorder);
    let (snapshots, stopped) = (worker.snapshots(), worker.stopped_time());
    thread.spawn(move || worker.run()).map_err(StartError::Thread)?;
    let context = options.model.context.max(options.limits.max_model_len);
    Ok(EngineHandle { commands, snapshots, text, next_id: Arc::new(AtomicU64::new(1)), context, stopped, recorded })
}

fn header(options: &EngineOptions, started_unix_ms: u64) -> Header {
    Header {
        batchroom_trace: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        model: options.model.clone(),
        limits: options.limits,
        kv: KvHeader {
            blocks: options.num_blocks,
            capacity: options.capacity.max(options.num_blocks),
            block_size: options.block_size,
        },
        pace: options.pace.steps_per_second(),
        target_itl_us: options.target_itl.map(micros),
        started_unix_ms,
    }
}

/// A way to talk to one engine.
#[derive(Clone, Debug)]
pub struct EngineHandle {
    commands: command::SyncSender<Command>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    text: Arc<TextModel>,
    next_id: Arc<AtomicU64>,
    /// The most that `max_model_len` can be made.
    context: usize,
    stopped: StoppedTime,
    /// A recording's end, if there is one.
    recorded: Option<Arc<Shared>>,
}

/// Engine time held, while the process is being stopped. The engine makes no step as long as this lives.
#[derive(Debug)]
pub struct HeldTime<'a>(MutexGuard<'a, Duration>);

impl HeldTime<'_> {
    /// The process was stopped for so long: no figure of the engine contains that time.
    pub fn skip(mut self, stopped: Duration) {
        *self.0 += stopped;
    }
}

impl EngineHandle {
    /// Renders and tokenizes a conversation and submits it. Everything that can be wrong with it arrives as
    /// `Event::Rejected` on the receiver. Dropping the receiver cancels the request.
    pub fn chat(&self, user: UserId, messages: &[Message], sampling: SamplingParams) -> (RequestId, mpsc::Receiver<Event>) {
        self.chat_as(user, messages, sampling, Place::default())
    }

    /// The same, as a fork, with a priority, or with a witness.
    pub fn chat_as(
        &self,
        user: UserId,
        messages: &[Message],
        sampling: SamplingParams,
        place: Place,
    ) -> (RequestId, mpsc::Receiver<Event>) {
        let newest = || messages.iter().rev().find(|message| message.role == Role::User);
        let said = self.recorded.is_some().then(newest).flatten().map(|message| message.content.clone());
        let continues = messages.last().is_some_and(|last| last.role == Role::Assistant);
        let place = Place { continues: place.continues || continues, ..place };
        match self.encode(messages) {
            Ok(prompt) => self.submit_with(user, prompt, sampling, place, said),
            Err(why) => self.rejected(user, why, said),
        }
    }

    /// Submits token ids as they are: no template.
    pub fn submit(&self, user: UserId, prompt: Vec<u32>, sampling: SamplingParams) -> (RequestId, mpsc::Receiver<Event>) {
        self.submit_as(user, prompt, sampling, Place::default())
    }

    /// The same, as a fork, with a priority, or with a witness.
    pub fn submit_as(
        &self,
        user: UserId,
        prompt: Vec<u32>,
        sampling: SamplingParams,
        place: Place,
    ) -> (RequestId, mpsc::Receiver<Event>) {
        self.submit_with(user, prompt, sampling, place, None)
    }

    fn submit_with(
        &self,
        user: UserId,
        prompt: Vec<u32>,
        sampling: SamplingParams,
        place: Place,
        said: Option<String>,
    ) -> (RequestId, mpsc::Receiver<Event>) {
        let vocab = self.text.vocab();
        if let Some(token) = prompt.iter().copied().find(|token| *token as usize >= vocab) {
            return self.rejected(user, Rejected::UnknownToken { token, vocab }, said);
        }
        if let Err(error) = sampling.check() {
            return self.rejected(user, Rejected::Sampling(error), said);
        }
        let id = self.new_id();
        let room = sampling.max_tokens.min(self.context) + EVENT_ROOM;
        let (events, receiver) = mpsc::channel(room);
        let submit = Submit { id, user, prompt, sampling, place, events, said };
        match self.commands.try_send(Command::Submit(submit)) {
            Ok(()) => (id, receiver),
            Err(command::TrySendError::Full(_)) => {
                self.rejected(user, Rejected::QueueFull { waiting: COMMANDS, max_waiting: COMMANDS, wait: None }, None)
            }
            Err(command::TrySendError::Disconnected(_)) => self.rejected(user, Rejected::EngineGone(self.last_words()), None),
        }
    }

    pub fn cancel(&self, id: RequestId) {
        self.tell(Command::Cancel(id));
    }

    pub fn pause(&self, paused: bool) {
        self.tell(Command::Pause(paused));
    }

    /// While paused: so many steps, then stop again.
    pub fn step(&self, steps: u32) {
        self.tell(Command::Step(steps));
    }

    pub fn set_pace(&self, pace: Pace) {
        self.tell(Command::SetPace(pace));
    }

    /// New limits, from the next step on. What comes of it is in the snapshot: the limits, and a note.
    pub fn set_limits(&self, limits: Limits) {
        self.tell(Command::SetLimits(limits));
    }

    /// The KV budget in blocks, up to the capacity that the snapshot names.
    pub fn set_kv_blocks(&self, blocks: usize) {
        self.tell(Command::SetKvBlocks(blocks));
    }

    /// The longest that a step is to take while somebody decodes: prompts get what is left of it.
    pub fn set_target_itl(&self, target: Option<Duration>) {
        self.tell(Command::SetTargetItl(target));
    }

    /// What a user is called in a recording, from now on.
    pub fn name(&self, user: UserId, name: &str) {
        if self.recorded.is_some() {
            self.tell(Command::Name { user, name: name.to_owned() });
        }
    }

    /// After `shutdown`: waits until the recording, if there is one, is written, at most so long. False when it is not.
    pub fn recorded(&self, longest: Duration) -> bool {
        self.recorded.as_ref().is_none_or(|recorded| recorded.wait(longest))
    }

    /// Holds engine time still, for stopping the whole process.
    pub fn hold_time(&self) -> HeldTime<'_> {
        HeldTime(self.stopped.hold())
    }

    /// The newest state; `changed()` on it wakes at most at the frame rate.
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }

    /// Takes no more work, lets what runs go on for `drain`, then cancels the rest and ends. The last snapshot
    /// says `Stopped`.
    pub fn shutdown(&self, drain: Duration) {
        self.tell(Command::Shutdown { drain });
    }

    pub fn text(&self) -> &TextModel {
        &self.text
    }

    fn encode(&self, messages: &[Message]) -> Result<Vec<u32>, Rejected> {
        let bytes: usize = messages.iter().map(|message| message.content.len()).sum();
        let max_model_len = self.snapshots.borrow().limits.max_model_len;
        if bytes > max_model_len.saturating_mul(MAX_BYTES_PER_TOKEN) {
            return Err(Rejected::TooManyBytes { bytes, max_model_len });
        }
        self.text.encode_chat(messages).map_err(|error| match error {
            TokenizerError::Template(TemplateError::Render(said)) => Rejected::Template(said),
            other => Rejected::Words(other.to_string()),
        })
    }

    fn rejected(&self, user: UserId, why: Rejected, said: Option<String>) -> (RequestId, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(1);
        // Never waits: with the command queue full it is only the counting that is missed.
        let _ = self.commands.try_send(Command::Refused { user, why: why.clone(), said });
        // The channel is new and has room for one.
        let _ = events.try_send(Event::Rejected(why));
        (self.new_id(), receiver)
    }

    fn new_id(&self) -> RequestId {
        RequestId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Control commands are few; when the queue is full of submissions, waiting a moment is right. When the engine
    /// is gone there is nothing left to control.
    fn tell(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    fn last_words(&self) -> String {
        match &self.snapshots.borrow().fault {
            Some(fault) => fault.clone(),
            None => SHUT_DOWN.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::engine::ForwardError;
    use crate::model::GgufFile;
    use crate::text::TokenizerData;

    struct NeverAsked;

    impl Model for NeverAsked {
        fn forward(&mut self, _: &Batch) -> Result<&[f32], ForwardError> {
            Err(ForwardError("not asked".into()))
        }
    }

    #[test]
    fn a_thread_that_cannot_be_had_is_an_error() {
        let file = GgufFile::from_static("nano", crate::hub::NANO_BYTES).unwrap();
        let text = Arc::new(TextModel::new(&TokenizerData::from_gguf(&file).unwrap()).unwrap());
        let model = ModelInfo {
            name: String::new(),
            title: String::new(),
            types: String::new(),
            parameters: 0,
            weight_bytes: 0,
            kernels: String::new(),
            threads: 1,
            vocab: text.vocab(),
            layers: 1,
            context: 64,
            kv_bytes_per_token: 1,
        };
        let limits = Limits {
            max_num_seqs: 1,
            max_num_batched_tokens: 8,
            prefill_chunk: 8,
            max_model_len: 64,
            max_waiting: 1,
            ..Limits::default()
        };
        let options =
            EngineOptions { limits, num_blocks: 4, capacity: 4, target_itl: None, block_size: 16, pace: Pace::Full, model };
        // No machine has a stack of this size to give.
        let thread = std::thread::Builder::new().stack_size(1 << 60);
        let error = start_on(thread, Box::new(NeverAsked), text, options, None).expect_err("no thread");
        assert!(matches!(error, StartError::Thread(_)), "{error}");
        assert!(error.to_string().starts_with("the engine's thread cannot be started ("), "{error}");
    }
}
