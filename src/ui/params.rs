//! The form with a pane's system prompt and sampling parameters, and the presets that fill it.

use crossterm::event::{KeyCode, KeyEvent};

use super::editor::Editor;
use super::keymap::{Action, Edit};
use super::state::{Mode, Pane, State};
use super::text::{clip, one_line};
use super::theme::Theme;
use super::words::say;
use crate::presets::Preset;
use crate::sampling::{InvalidSampling, SamplingParams};

/// A field of the form.
pub struct Field {
    pub name: &'static str,
    pub about: &'static str,
    /// What it may be, in few words.
    pub range: &'static str,
}

const fn field(name: &'static str, about: &'static str, range: &'static str) -> Field {
    Field { name, about, range }
}

pub const SYSTEM: usize = 0;
const SEED: usize = 7;
const STOP: usize = 8;
const PRIORITY: usize = 9;
/// Columns of a value in a notice.
const SAID: usize = 32;
/// After the fields: the row of presets.
pub const PRESETS: usize = FIELDS.len();

pub const FIELDS: [Field; 10] = [
    field("system", "what the model is told first; empty: nothing. Alt-Enter: a new line", ""),
    field("temperature", "0 is exactly greedy; higher is wilder", "0 to 100"),
    field("top_k", "keep the k likeliest tokens; 0 keeps all", "0 and more"),
    field("top_p", "keep the likeliest tokens that add up to this; 1 keeps all", "above 0, to 1"),
    field("min_p", "keep tokens at least this fraction as likely as the likeliest", "0 to 1"),
    field("repetition_penalty", "push down tokens that are there already; 1 changes nothing", "0.01 to 10"),
    field("max_tokens", "tokens of one answer at most", "1 and more"),
    field("seed", "the same seed gives the same answer; empty: a new one each time", "a whole number, or empty"),
    field("stop", "the answer ends before this text; several with | between", "at most 16"),
    field("priority", "who comes first under the policy priority (F10): the higher one", "a whole number"),
];

/// Columns of the system prompt in the form.
pub const COLUMNS: usize = 54;

/// Fields being edited.
#[derive(Clone, Debug)]
pub struct Form {
    pub fields: Vec<Editor>,
    /// The field, or the row of presets after them.
    pub at: usize,
    /// What is wrong with each.
    pub errors: Vec<Option<String>>,
    pub presets: Vec<Preset>,
}

/// Presets that are always there, then those of the configuration; one of the same name replaces ours. `own` is what the
/// program was started with.
pub fn presets(own: &SamplingParams, configured: &[Preset]) -> Vec<Preset> {
    let with = |name: &str, sampling| Preset { name: name.into(), sampling, system: None };
    let plain = SamplingParams { max_tokens: own.max_tokens, stop: own.stop.clone(), ..SamplingParams::default() };
    let mut all = vec![
        with("precise", SamplingParams { temperature: 0.0, repetition_penalty: 1.0, ..plain.clone() }),
        with("balanced", plain.clone()),
        with("creative", SamplingParams { temperature: 1.0, top_k: 0, top_p: 0.98, min_p: 0.02, ..plain }),
    ];
    for preset in configured {
        match all.iter_mut().find(|other| other.name == preset.name) {
            Some(same) => *same = preset.clone(),
            None => all.push(preset.clone()),
        }
    }
    all
}

fn values(sampling: &SamplingParams) -> [String; 6] {
    [
        sampling.temperature.to_string(),
        sampling.top_k.to_string(),
        sampling.top_p.to_string(),
        sampling.min_p.to_string(),
        sampling.repetition_penalty.to_string(),
        sampling.max_tokens.to_string(),
    ]
}

impl Form {
    pub fn of(pane: &Pane, presets: Vec<Preset>) -> Form {
        let mut texts = vec![pane.system.clone().unwrap_or_default()];
        texts.extend(values(&pane.sampling));
        texts.push(pane.seed.map(|seed| seed.to_string()).unwrap_or_default());
        texts.push(pane.sampling.stop.join("|"));
        texts.push(pane.priority.to_string());
        let fields: Vec<Editor> = texts.iter().map(|value| Editor::with_text(value)).collect();
        Form { errors: vec![None; fields.len()], fields, at: SYSTEM, presets }
    }

    /// Whether it says something else than the pane has.
    fn changes(&self, pane: &Pane) -> bool {
        let own = Form::of(pane, Vec::new());
        self.fields.iter().zip(&own.fields).any(|(now, before)| now.text() != before.text())
    }

    /// The preset that the fields say now.
    pub fn preset(&self) -> Option<usize> {
        let same = |preset: &Preset| {
            let values = values(&preset.sampling);
            let numbers = (1..SEED).all(|at| self.fields[at].text().trim() == values[at - 1]);
            let stop = self.fields[STOP].text() == preset.sampling.stop.join("|");
            let system = preset.system.as_deref().is_none_or(|system| system == self.fields[SYSTEM].text());
            numbers && stop && system
        };
        self.presets.iter().position(same)
    }

    fn fill(&mut self, preset: usize) {
        let Some(preset) = self.presets.get(preset).cloned() else { return };
        for (at, value) in values(&preset.sampling).iter().enumerate() {
            self.fields[at + 1].set(value);
        }
        self.fields[STOP].set(&preset.sampling.stop.join("|"));
        if let Some(system) = &preset.system {
            self.fields[SYSTEM].set(system);
        }
        self.errors.fill(None);
    }

    pub fn paste(&mut self, text: &str) {
        if let Some(field) = self.fields.get_mut(self.at) {
            let text = if self.at == SYSTEM { text.to_owned() } else { text.replace(['\n', '\r'], " ") };
            field.insert(&text);
            self.errors[self.at] = None;
        }
    }

    /// Puts the values into the pane; or notes what is wrong beside each field, and changes nothing.
    pub fn apply(&mut self, pane: &mut Pane, theme: Theme) -> bool {
        let mut sampling = pane.sampling.clone();
        for at in 1..FIELDS.len() {
            let result = match at {
                SEED => seed(self.fields[at].text(), theme).map(|_| ()),
                PRIORITY => number::<i32>(self.fields[at].text(), theme).map(|_| ()),
                _ => put(&mut sampling, at, self.fields[at].text(), theme),
            };
            self.errors[at] = result.err();
        }
        if let Some(wrong) = self.errors.iter().position(Option::is_some) {
            self.at = wrong;
            return false;
        }
        pane.seed = seed(self.fields[SEED].text(), theme).ok().flatten();
        pane.system = Some(self.fields[SYSTEM].text().to_owned()).filter(|system| !system.trim().is_empty());
        pane.sampling = sampling;
        pane.priority = number(self.fields[PRIORITY].text(), theme).unwrap_or(pane.priority);
        true
    }
}

fn seed(text: &str, theme: Theme) -> Result<Option<u64>, String> {
    match text.trim() {
        "" => Ok(None),
        text => number(text, theme).map(Some),
    }
}

/// One value into the parameters; what is wrong with it otherwise.
fn put(sampling: &mut SamplingParams, at: usize, text: &str, theme: Theme) -> Result<(), String> {
    let text = text.trim();
    let before = sampling.clone();
    match at {
        1 => sampling.temperature = number(text, theme)?,
        2 => sampling.top_k = number(text, theme)?,
        3 => sampling.top_p = number(text, theme)?,
        4 => sampling.min_p = number(text, theme)?,
        5 => sampling.repetition_penalty = number(text, theme)?,
        6 => sampling.max_tokens = number(text, theme)?,
        _ => sampling.stop = text.split('|').filter(|stop| !stop.is_empty()).map(str::to_owned).collect(),
    }
    sampling.check().map_err(|error| {
        *sampling = before;
        out_of_range(&error, theme)
    })
}

pub(super) fn out_of_range(error: &InvalidSampling, theme: Theme) -> String {
    say!(theme, "it must be {}", theme.tr(error.range))
}

fn number<T: std::str::FromStr>(text: &str, theme: Theme) -> Result<T, String> {
    text.trim().parse().map_err(|_| theme.tr("that is no number of this kind").to_owned())
}

/// A key in the form. It stays open unless it is left or applied.
pub fn on_key(state: &mut State, key: KeyEvent, action: Option<Action>, mut form: Form) {
    let theme = state.options.theme;
    match (key.code, action) {
        (KeyCode::Esc, _) | (_, Some(Action::Cancel)) => {
            let changed = form.changes(state.focused());
            if !super::update::asks_first(state, changed) {
                return;
            }
        }
        (_, Some(Action::Newline)) if form.at == SYSTEM => form.paste("\n"),
        (KeyCode::Enter, _) => {
            let before = Form::of(state.focused(), Vec::new());
            if form.apply(state.focused_mut(), theme) {
                let words = applied(&before, state.focused(), None, theme);
                state.say(words);
                return;
            }
        }
        (KeyCode::Tab, _) => form.at = (form.at + 1) % (PRESETS + 1),
        (KeyCode::BackTab, _) => form.at = (form.at + PRESETS) % (PRESETS + 1),
        (KeyCode::Down, _) if !within(&mut form, true) => form.at = (form.at + 1) % (PRESETS + 1),
        (KeyCode::Up, _) if !within(&mut form, false) => form.at = (form.at + PRESETS) % (PRESETS + 1),
        (KeyCode::Down | KeyCode::Up, _) => {}
        (KeyCode::Left | KeyCode::Right, _) if form.at == PRESETS => {
            let last = form.presets.len().saturating_sub(1);
            let to = match (form.preset(), key.code) {
                (None, KeyCode::Left) => last,
                (None, _) => 0,
                (Some(at), KeyCode::Left) => at.checked_sub(1).unwrap_or(last),
                (Some(at), _) => {
                    if at == last {
                        0
                    } else {
                        at + 1
                    }
                }
            };
            form.fill(to);
        }
        _ if form.at == PRESETS => {}
        _ => {
            let at = form.at;
            type_into(&mut form.fields[at], key, action);
            form.errors[at] = None;
        }
    }
    state.mode = Mode::Params(form);
}

/// What is different now from what the form had before. `preset`: the name that all of it has together.
fn applied(before: &Form, pane: &Pane, preset: Option<&str>, theme: Theme) -> String {
    let (name, now) = (&pane.person.name, Form::of(pane, Vec::new()));
    let pairs = before.fields.iter().zip(&now.fields).zip(FIELDS);
    let changed = pairs.filter(|((old, new), _)| old.text() != new.text()).map(|((_, new), field)| match new.text() {
        "" => say!(theme, "{}: none", field.name),
        text => format!("{}: {}", field.name, clip(&one_line(text), SAID)),
    });
    let changed = changed.collect::<Vec<_>>().join(", ");
    match preset {
        _ if changed.is_empty() => say!(theme, "{}: nothing was changed", name),
        Some(preset) => say!(theme, "{} from the next prompt on: preset {} ({})", name, preset, changed),
        None => say!(theme, "{} from the next prompt on: {}", name, changed),
    }
}

/// Moves within the lines of the system prompt, if there is a line to go to.
fn within(form: &mut Form, down: bool) -> bool {
    if form.at != SYSTEM {
        return false;
    }
    let editor = &mut form.fields[SYSTEM];
    let (lines, row, _) = editor.layout(COLUMNS);
    match down {
        true if row + 1 < lines.len() => editor.down(COLUMNS),
        false if row > 0 => editor.up(COLUMNS),
        _ => return false,
    }
    true
}

fn type_into(editor: &mut Editor, key: KeyEvent, action: Option<Action>) {
    if !matches!(action, Some(Action::Edit(Edit::Up | Edit::Down))) {
        super::update::type_into(editor, key, action);
    }
}

/// `temperature 0.3`: one value, from the next prompt on.
///
/// # Errors
/// What is wrong with it, for a person.
pub fn set(state: &mut State, at: usize, what: &str) -> Result<(), String> {
    let theme = state.options.theme;
    let (name, value) = what.split_once(char::is_whitespace).unwrap_or((what, ""));
    let value = value.trim();
    let field = FIELDS.iter().position(|field| field.name == name);
    let pane = &mut state.panes[at];
    let person = pane.person.name.clone();
    match field {
        Some(SYSTEM) => pane.system = Some(value.to_owned()).filter(|system| !system.is_empty()),
        Some(SEED) => pane.seed = seed(value, theme).map_err(|why| format!("{name}: {why}"))?,
        Some(PRIORITY) => pane.priority = number(value, theme).map_err(|why| format!("{name}: {why}"))?,
        Some(field) => put(&mut pane.sampling, field, value, theme).map_err(|why| format!("{name}: {why}"))?,
        None => {
            let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
            return Err(say!(theme, "there is no parameter {}: there are {}", one_line(name), names.join(", ")));
        }
    }
    state.say(say!(theme, "{}: {} is {} from the next prompt on", person, name, one_line(value)));
    Ok(())
}

/// All values of a preset, from the next prompt on.
///
/// # Errors
/// When there is none of that name.
pub fn take_preset(state: &mut State, at: usize, name: &str) -> Result<(), String> {
    let theme = state.options.theme;
    let all = presets(&state.options.sampling, &state.options.presets);
    let Some(preset) = all.iter().find(|preset| preset.name == name) else {
        let names: Vec<&str> = all.iter().map(|preset| preset.name.as_str()).collect();
        return Err(say!(theme, "there is no preset {}: there are {}", one_line(name), names.join(", ")));
    };
    let pane = &mut state.panes[at];
    let before = Form::of(pane, Vec::new());
    pane.sampling = preset.sampling.clone();
    if preset.system.is_some() {
        pane.system = preset.system.clone();
    }
    let words = applied(&before, pane, Some(&preset.name), theme);
    state.say(words);
    Ok(())
}
