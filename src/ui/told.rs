//! What the engine tells of itself, in the screen's language: changes, and why something was not done or ended early.

use super::format::{count, time};
use super::text::one_line;
use super::theme::Theme;
use super::words::say;
use crate::engine::api::{Change, FAULT, NotChanged, NotRun, RecordingEnd, SHUT_DOWN, Setting, differences};
use crate::engine::api::{InvalidLimits, NOT_FINITE};
use crate::replay::Cut;

/// What was changed, from what to what.
pub fn change(change: &Change, theme: Theme) -> String {
    match change {
        Change::Limits { old, new } => {
            let one = |(name, old, new)| format!("{name} {} -> {}", setting(old, theme), setting(new, theme));
            differences(old, new).into_iter().map(one).collect::<Vec<_>>().join(", ")
        }
        Change::KvBlocks { old, new } => {
            say!(theme, "KV budget {} -> {} blocks", count(*old as u64), count(*new as u64))
        }
        Change::TargetItl { old, new } => {
            let [old, new] = [old, new].map(|target| target.map_or_else(|| theme.tr("off").to_owned(), time));
            format!("target_itl {old} -> {new}")
        }
    }
}

fn setting(setting: Setting, theme: Theme) -> String {
    match setting {
        Setting::Number(number) => count(number as u64),
        Setting::Switch(on) => theme.tr(if on { "on" } else { "off" }).to_owned(),
        Setting::Policy(_) | Setting::Mode(_) => setting.to_string(),
    }
}

/// Why a change cannot be.
pub fn not_changed(why: &NotChanged, theme: Theme) -> String {
    let number = |value: &usize| count(*value as u64);
    match why {
        NotChanged::OverContext { max_model_len, context } => {
            let (asked, context) = (number(max_model_len), number(context));
            say!(theme, "max_model_len {}: the context of the model is {} tokens", asked, context)
        }
        NotChanged::Limits(InvalidLimits::Zero(name)) => say!(theme, "{} must be at least 1", name),
        NotChanged::Limits(InvalidLimits::BudgetBelowSeats { budget, seats }) => say!(
            theme,
            "max_num_batched_tokens ({}) is below max_num_seqs ({}): every running sequence needs one token of each step; raise the \
             first or lower the second",
            number(budget),
            number(seats)
        ),
        NotChanged::Limits(InvalidLimits::BelowLive { blocks, needed, .. }) => say!(
            theme,
            "a KV budget of {} blocks is too small: one live conversation alone needs {}",
            number(blocks),
            number(needed)
        ),
        NotChanged::Limits(InvalidLimits::OverCapacity { blocks, capacity }) => say!(
            theme,
            "a KV budget of {} blocks is more than this engine was started with: it has {}",
            number(blocks),
            number(capacity)
        ),
        NotChanged::Limits(InvalidLimits::BelowLent { blocks, lent }) => say!(
            theme,
            "a KV budget of {} blocks is too small at this moment: {} hold an answer that is being computed once more",
            number(blocks),
            number(lent)
        ),
    }
}

/// Why an answer was not computed once more.
pub fn not_run(why: &NotRun, theme: Theme) -> String {
    match why {
        NotRun::ShuttingDown => theme.tr("the engine is shutting down").to_owned(),
        NotRun::TooMany => theme.tr("too many others wait to be computed once more").to_owned(),
        NotRun::NoRoom { tokens } => say!(theme, "{} tokens do not fit the KV budget any more", count(*tokens as u64)),
        NotRun::Words(words) => fault(words, theme),
    }
}

/// Why nothing more is recorded.
pub fn recording_end(why: &RecordingEnd, theme: Theme) -> String {
    match why {
        RecordingEnd::Full => theme.tr("the trace has reached its greatest size").to_owned(),
        RecordingEnd::Slow => theme.tr("the disk is slower than the engine").to_owned(),
        RecordingEnd::Disk { error } => say!(theme, "the trace cannot be written: {}", one_line(error)),
        RecordingEnd::Words(words) => one_line(words),
    }
}

/// Why a recording is not whole.
pub fn cut(cut: &Cut, theme: Theme) -> String {
    match cut {
        Cut::Recording(end) => recording_end(end, theme),
        Cut::LastLine => theme.tr("its last line breaks off").to_owned(),
        Cut::NoEnd => theme.tr("it ends before the engine did").to_owned(),
    }
}

/// What ended the engine, or an answer. A panic's own words, and a device's, are for whoever mends it: they stay as they are.
pub fn fault(words: &str, theme: Theme) -> String {
    match words {
        SHUT_DOWN => theme.tr("it was shut down").to_owned(),
        NOT_FINITE => theme.tr("the model's logits are not finite numbers for this sequence").to_owned(),
        words => match words.strip_prefix(FAULT) {
            Some(panic) => say!(theme, "a fault in the engine: {}", one_line(panic)),
            None => one_line(words),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::api::Limits;
    use crate::ui::theme::Colors;
    use crate::ui::words::Lang;

    #[test]
    fn changes_and_refusals_have_their_numbers_in_both_languages() {
        let old = Limits::default();
        let new = Limits { max_num_seqs: old.max_num_seqs + 1, prefix_cache: !old.prefix_cache, ..old };
        for lang in [Lang::En, Lang::Vi] {
            let theme = Theme::new(Colors::None).speaking(lang);
            let said = change(&Change::Limits { old, new }, theme);
            assert!(
                said.starts_with(&format!("max_num_seqs {} -> {}, prefix_cache", old.max_num_seqs, new.max_num_seqs)),
                "{said}"
            );
            assert_eq!(said.contains("off"), lang == Lang::En, "{said}");
            let said = change(&Change::KvBlocks { old: 2000, new: 10 }, theme);
            assert!(said.contains("2,000 -> 10"), "{said}");
            let said = change(&Change::TargetItl { old: None, new: Some(std::time::Duration::from_millis(50)) }, theme);
            assert!(said.ends_with("-> 50ms") && said.contains(theme.tr("off")), "{said}");
            let refused = NotChanged::Limits(InvalidLimits::OverCapacity { blocks: 65, capacity: 64 });
            let said = not_changed(&refused, theme);
            assert!(said.contains("65") && said.contains("64") && (said == refused.to_string()) == (lang == Lang::En), "{said}");
            let said = fault(&format!("{FAULT}index\u{1b} out of bounds"), theme);
            assert!(said.ends_with("index␛ out of bounds") && said.starts_with(FAULT) == (lang == Lang::En), "{said}");
        }
    }
}
