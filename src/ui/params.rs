//! The form with a pane's system prompt and sampling parameters.

use super::editor::Editor;
use super::state::Pane;
use crate::sampling::SamplingParams;

/// Label, and what it does, for each field, in order.
pub const FIELDS: [(&str, &str); 9] = [
    ("system", "what the model is told before the conversation; empty: nothing"),
    ("temperature", "0 is exactly greedy; higher is wilder"),
    ("top_k", "keep the k likeliest tokens; 0 keeps all"),
    ("top_p", "keep the likeliest tokens that add up to this; 1 keeps all"),
    ("min_p", "keep tokens at least this fraction as likely as the likeliest"),
    ("repetition_penalty", "push down tokens that are there already; 1 changes nothing"),
    ("max_tokens", "tokens of one answer at most"),
    ("seed", "the same seed gives the same answer; empty: a new one each time"),
    ("stop", "the answer ends before this text; several with | between"),
];

/// Fields being edited.
#[derive(Clone, Debug)]
pub struct Form {
    pub fields: Vec<Editor>,
    pub at: usize,
    /// What was wrong when it was last applied.
    pub error: Option<String>,
}

impl Form {
    pub fn of(pane: &Pane) -> Form {
        let sampling = &pane.sampling;
        let values = [
            pane.system.clone().unwrap_or_default(),
            sampling.temperature.to_string(),
            sampling.top_k.to_string(),
            sampling.top_p.to_string(),
            sampling.min_p.to_string(),
            sampling.repetition_penalty.to_string(),
            sampling.max_tokens.to_string(),
            pane.seed.map(|seed| seed.to_string()).unwrap_or_default(),
            sampling.stop.join("|"),
        ];
        Form { fields: values.iter().map(|value| Editor::with_text(value)).collect(), at: 0, error: None }
    }

    /// Puts the values into the pane; or says what is wrong, and changes nothing.
    pub fn apply(&self, pane: &mut Pane) -> Result<(), String> {
        let text = |at: usize| self.fields[at].text().trim();
        let sampling = SamplingParams {
            temperature: number(text(1), "temperature")?,
            top_k: number(text(2), "top_k")?,
            top_p: number(text(3), "top_p")?,
            min_p: number(text(4), "min_p")?,
            repetition_penalty: number(text(5), "repetition_penalty")?,
            max_tokens: number(text(6), "max_tokens")?,
            stop: self.fields[8].text().split('|').filter(|stop| !stop.is_empty()).map(str::to_owned).collect(),
            ..pane.sampling.clone()
        };
        sampling.check().map_err(|error| error.to_string())?;
        let seed = if text(7).is_empty() { None } else { Some(number(text(7), "seed")?) };
        pane.system = Some(self.fields[0].text().to_owned()).filter(|system| !system.trim().is_empty());
        (pane.sampling, pane.seed) = (sampling, seed);
        Ok(())
    }
}

fn number<T: std::str::FromStr>(text: &str, name: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name} is `{text}`: that is no number of its kind"))
}
