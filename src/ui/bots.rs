//! People made of program, who chat by themselves: load to watch. They have no panes; the panels show them like
//! everybody, by the names bot 1, bot 2, ... Pure: the time comes with the messages, draws come from a seed.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use super::format::time;
use super::keymap::{Action, key_for};
use super::people::{FIRST_BOT, Person};
use super::state::State;
use super::update::Effect;
use super::words::say;
use crate::batch::UserId;
use crate::engine::api::{Event, FinishReason, RunState};
use crate::random::SplitMix64;
use crate::sampling::SamplingParams;
use crate::text::{Message, Role};

pub const MAX_BOTS: usize = 64;
/// Longest mean pause.
pub const PAUSE_MAX: Duration = Duration::from_secs(60);
const PAUSES_MS: [u64; 12] = [0, 100, 250, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 30_000, 60_000];
/// A conversation is begun anew after so many of its prompts.
const TURNS: usize = 5;
/// A refused bot tries again after this, and twice as late each time, at most so often.
const REFUSED: Duration = Duration::from_secs(1);
const DOUBLINGS: u32 = 5;

/// What bots send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    #[default]
    Chat,
    Documents,
    Agents,
}

impl Load {
    pub const ALL: [Load; 3] = [Load::Chat, Load::Documents, Load::Agents];

    pub fn name(self) -> &'static str {
        match self {
            Load::Chat => "chat",
            Load::Documents => "documents",
            Load::Agents => "agents",
        }
    }

    pub fn named(name: &str) -> Option<Load> {
        Load::ALL.into_iter().find(|load| load.name() == name)
    }
}

const QUESTIONS: [&str; 16] = [
    "What is the capital of France?",
    "Tell me a short story about a lighthouse.",
    "Why is the sky blue?",
    "How do I make tea?",
    "Name three animals that live in the sea.",
    "What is a prime number?",
    "Write two lines about rain.",
    "Explain what a computer does, to a child.",
    "What should I eat for breakfast?",
    "Who wrote Hamlet?",
    "How far away is the moon?",
    "Give me a name for a cat.",
    "What is the difference between a cup and a glass?",
    "Describe a train journey in the mountains.",
    "What can I do on a rainy day?",
    "How does a bicycle stay upright?",
];

const FOLLOW_UPS: [&str; 8] = [
    "Why?",
    "Tell me more.",
    "And then?",
    "Say it in fewer words.",
    "Give me an example.",
    "Are you sure?",
    "How?",
    "Thank you. What else?",
];

/// Sentences that documents are made of.
const SENTENCES: [&str; 10] = [
    "The ferry left the harbour a little after six, when the fog had begun to lift.",
    "Three of the cranes were out of order, so the crew unloaded the crates by hand.",
    "According to the log, the water stood two metres higher than in the year before.",
    "Nobody could say who had ordered the bricks, but they had been paid for.",
    "The inspector counted the windows twice and wrote down a different number each time.",
    "In the afternoon the wind turned, and the smaller boats came back early.",
    "A letter from the ministry arrived with the mail and was read out after dinner.",
    "The bakery on the corner stayed open, and so did the office of the harbour master.",
    "By then the repair had cost more than the engine itself.",
    "The children had drawn a map of the whole island, with every well and every dog on it.",
];

/// What all agents are told: long, and the same for each of them.
const INSTRUCTION: &str = "You are a player in a game on a board of eight by eight fields. Each field is grass, water or rock. \
    You see the field you stand on and the eight around it. In each move you may go one field north, east, south or west, wait, \
    or pick up what lies on your field. Water cannot be entered; rock costs two moves. You carry at most three things. A key opens \
    a chest of its own colour. A lamp lets you see two fields far. Bread gives back five points of strength; each move costs one. \
    Whoever has no strength left must wait. Two players cannot stand on one field; the one who moved first stays. The game ends \
    when all chests are open or after two hundred moves. Answer with one move and one short sentence that says why.";

#[derive(Clone, Debug, PartialEq)]
enum Doing {
    /// Sends its next prompt at this time.
    Thinking(Duration),
    Waiting,
}

#[derive(Clone, Debug)]
struct Bot {
    person: Person,
    doing: Doing,
    messages: VecDeque<Message>,
    prompts: usize,
    refusals: u32,
}

/// All bots.
#[derive(Clone, Debug)]
pub struct Bots {
    bots: Vec<Bot>,
    pause: Duration,
    load: Load,
    random: SplitMix64,
}

impl Bots {
    pub fn new(seed: u64) -> Bots {
        Bots { bots: Vec::new(), pause: Duration::from_secs(2), load: Load::default(), random: SplitMix64(seed) }
    }

    pub fn wanted(&self) -> usize {
        self.bots.len()
    }

    pub fn pause(&self) -> Duration {
        self.pause
    }

    pub fn set_pause(&mut self, pause: Duration) {
        self.pause = pause.min(PAUSE_MAX);
    }

    pub fn load(&self) -> Load {
        self.load
    }

    /// From each bot's next prompt on.
    pub fn set_load(&mut self, load: Load) {
        if self.load != load {
            self.load = load;
            self.bots.iter_mut().for_each(Bot::begin_anew);
        }
    }

    pub fn people(&self) -> impl Iterator<Item = &Person> {
        self.bots.iter().map(|bot| &bot.person)
    }

    fn due(&self) -> Option<Duration> {
        let times = self.bots.iter().filter_map(|bot| match bot.doing {
            Doing::Thinking(until) => Some(until),
            Doing::Waiting => None,
        });
        times.min()
    }

    /// A pause of the mean length: exponential, as the gaps of independent people are, and at most four times the mean.
    fn think(&mut self) -> Duration {
        self.pause.mul_f64(self.random.exponential(1.0).min(4.0))
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.random.range(0, from.len() as u64 - 1) as usize]
    }

    fn prompt(&mut self, at: usize, context: usize) -> String {
        match self.load {
            Load::Chat if self.bots[at].prompts > 0 => self.pick(&FOLLOW_UPS).to_owned(),
            Load::Chat => self.pick(&QUESTIONS).to_owned(),
            Load::Documents => {
                // About a third of the context: a sentence is some twenty tokens.
                let sentences = (context / 60).clamp(4, 120);
                let text: Vec<&str> = (0..sentences).map(|_| self.pick(&SENTENCES)).collect();
                format!("Summarize this in one sentence:\n\n{}", text.join(" "))
            }
            Load::Agents => {
                let (x, y) = (self.random.range(0, 7), self.random.range(0, 7));
                format!("You stand on field {x},{y}. A key lies to the east. Your move?")
            }
        }
    }

    /// Tokens of an answer at most: bots differ, so that rows end one by one.
    fn answer_len(&mut self) -> usize {
        let draw = self.random.range(0, 96) as usize;
        match self.load {
            Load::Chat => 32 + draw,
            Load::Documents => 16 + draw / 3,
            Load::Agents => 8 + draw / 4,
        }
    }
}

impl Bot {
    fn begin_anew(&mut self) {
        self.messages.clear();
        self.prompts = 0;
    }
}

pub fn pause_beside(pause: Duration, up: bool) -> Duration {
    let now = pause.as_millis() as u64;
    let next = if up { PAUSES_MS.into_iter().find(|ms| *ms > now) } else { PAUSES_MS.into_iter().rev().find(|ms| *ms < now) };
    next.map_or(pause, Duration::from_millis)
}

/// So many bots from now on. Those who go are cancelled, and their names stay for what the panels still show of them.
pub fn set_number(state: &mut State, number: usize) -> Vec<Effect> {
    let number = number.min(MAX_BOTS);
    let mut effects = Vec::new();
    while state.bots.bots.len() > number {
        let Some(bot) = state.bots.bots.pop() else { break };
        if bot.doing == Doing::Waiting {
            effects.push(Effect::Abandon(bot.person.user));
        }
        state.remember(bot.person);
    }
    while state.bots.bots.len() < number {
        let at = state.bots.bots.len();
        let user = UserId(FIRST_BOT + at as u32);
        state.forget(user);
        let name = format!("bot {}", at + 1);
        let letter = char::from_digit((at as u32 + 1) % 10, 10).unwrap_or('0');
        let person = Person { user, name: name.clone(), letter, hue: at };
        // They do not all come at once.
        let first = state.now + state.bots.think();
        let bot = Bot { person, doing: Doing::Thinking(first), messages: VecDeque::new(), prompts: 0, refusals: 0 };
        state.bots.bots.push(bot);
        effects.push(Effect::Name { user, name });
    }
    effects
}

/// The same, and says what came of it.
pub fn change_number(state: &mut State, number: usize) -> Vec<Effect> {
    let theme = state.options.theme;
    let before = state.bots.wanted();
    if number > MAX_BOTS {
        state.complain(say!(theme, "there are {} bots already, and no more may come", MAX_BOTS));
        return Vec::new();
    }
    let effects = set_number(state, number);
    let left = theme.plural(number, "{} bot chats", "{} bots chat");
    let words = match number.cmp(&before) {
        Ordering::Equal if number == 0 => theme.tr("there is no bot that could leave").to_owned(),
        Ordering::Equal => return effects,
        Ordering::Less if number == 0 => theme.tr("the last bot has left").to_owned(),
        Ordering::Less => say!(theme, "{} now: the newest left, and what it was asking was cancelled", left),
        Ordering::Greater => {
            let (load, pause) = (state.bots.load().name(), time(state.bots.pause()));
            let key = key_for(Action::Settings);
            match awake(state) {
                true => say!(
                    theme,
                    "{} now, of at most {}: load {}, {} between answer and next prompt ({})",
                    left,
                    MAX_BOTS,
                    load,
                    pause,
                    key
                ),
                false => say!(theme, "{} now, of at most {}: they begin when the engine runs again", left, MAX_BOTS),
            }
        }
    };
    state.say(words);
    effects
}

/// Whether anybody types now: not while the engine stands still, and not in a recording.
fn awake(state: &State) -> bool {
    !matches!(state.snapshot.state, RunState::Paused | RunState::Stopped) && state.replay.is_none()
}

/// When the next prompt is due.
pub fn next(state: &State) -> Option<Duration> {
    state.bots.due().filter(|_| awake(state))
}

/// The prompts that are due. Nobody types while the engine is paused.
pub fn tick(state: &mut State) -> Vec<Effect> {
    if !awake(state) {
        return Vec::new();
    }
    let now = state.now;
    let due = |bot: &Bot| matches!(bot.doing, Doing::Thinking(until) if until <= now);
    let all: Vec<usize> = (0..state.bots.bots.len()).filter(|at| due(&state.bots.bots[*at])).collect();
    all.into_iter().map(|at| send(state, at)).collect()
}

fn send(state: &mut State, at: usize) -> Effect {
    let context = state.snapshot.limits.max_model_len;
    let bots = &mut state.bots;
    let content = bots.prompt(at, context);
    let (max_tokens, seed) = (bots.answer_len(), bots.random.bits());
    let system = (bots.load == Load::Agents).then(|| Message { role: Role::System, content: INSTRUCTION.to_owned() });
    let bot = &mut bots.bots[at];
    bot.messages.push_back(Message { role: Role::User, content });
    bot.messages.push_back(Message { role: Role::Assistant, content: String::new() });
    bot.prompts += 1;
    bot.doing = Doing::Waiting;
    let said = bot.messages.iter().filter(|message| !message.content.is_empty()).cloned();
    let sampling = SamplingParams { max_tokens, seed, ..state.options.sampling.clone() };
    let messages = system.into_iter().chain(said).collect();
    Effect::Submit { user: bot.person.user, messages, sampling, fork_of: None }
}

/// What the engine says to a bot.
pub fn on_event(state: &mut State, user: UserId, event: &Event) {
    let now = state.now;
    let think = state.bots.think();
    let load = state.bots.load;
    let Some(bot) = state.bots.bots.iter_mut().find(|bot| bot.person.user == user) else { return };
    match event {
        Event::Token { text, .. } => {
            if let Some(answer) = bot.messages.back_mut() {
                answer.content.push_str(text);
            }
        }
        Event::Finished(end) => {
            bot.refusals = 0;
            bot.doing = Doing::Thinking(now + think);
            if let Some(answer) = bot.messages.back_mut() {
                answer.content.push_str(&end.text);
            }
            let full = matches!(end.reason, FinishReason::ContextFull | FinishReason::KvFull | FinishReason::Failed);
            if full || bot.prompts >= TURNS || load != Load::Chat {
                bot.begin_anew();
            }
        }
        Event::Rejected(_) => {
            bot.doing = Doing::Thinking(now + (REFUSED * 2u32.pow(bot.refusals.min(DOUBLINGS))).max(think));
            bot.refusals += 1;
            bot.begin_anew();
        }
        Event::Queued { .. } | Event::Admitted { .. } | Event::Preempted { .. } | Event::Witnessed(_) => {}
    }
}

/// The channel of a bot's request is gone, or its engine was replaced: it thinks, and asks again.
pub fn on_lost(state: &mut State, user: Option<UserId>) {
    let later = state.now + REFUSED;
    for bot in &mut state.bots.bots {
        if bot.doing == Doing::Waiting && user.is_none_or(|user| bot.person.user == user) {
            bot.doing = Doing::Thinking(later);
            bot.begin_anew();
        }
    }
}
