//! Where the time of a step goes: as a bar, and in words.

use ratatui::text::{Line, Span};

use super::series::Scene;
use crate::engine::api::StepParts;
use crate::ui::words::say;

/// Seconds that the steps which are drawn (all that are kept, where nothing is drawn yet) spent in products, attention, sampling and scheduling, and altogether. None where the
/// model does not say.
fn parts(scene: &Scene<'_>) -> Option<([f64; 4], f64)> {
    let (mut parts, mut whole) = ([0.0; 4], 0.0);
    for sample in scene.samples() {
        let (Some(of), Some(step)) = (sample.parts, sample.step) else { continue };
        let steps = f64::from(sample.steps.max(1));
        let [attention, products, sampling, scheduling] = StepParts::all(&of);
        let known = [products, attention, sampling, scheduling];
        parts.iter_mut().zip(known).for_each(|(sum, part)| *sum += part.as_secs_f64() * steps);
        whole += step.as_secs_f64() * steps;
    }
    if whole <= 0.0 {
        // Before the first sample there are the steps themselves.
        for record in scene.snapshot.timeline.iter() {
            let Some(of) = record.parts else { continue };
            let [attention, products, sampling, scheduling] = StepParts::all(&of);
            let known = [products, attention, sampling, scheduling];
            parts.iter_mut().zip(known).for_each(|(sum, part)| *sum += part.as_secs_f64());
            whole += record.duration.as_secs_f64();
        }
    }
    (whole > 0.0).then_some((parts, whole))
}

/// The same as a bar, in the order of the words under it; the rest is blank.
pub(super) fn parts_bar(scene: &Scene<'_>, columns: usize) -> Line<'static> {
    let Some((parts, whole)) = parts(scene) else { return Line::default() };
    let theme = scene.theme;
    let looks = [("█", theme.accent()), ("▓", theme.warn()), ("▒", theme.good()), ("░", theme.text())];
    let (mut spent, mut drawn) = (0.0, 0);
    let mut spans = Vec::new();
    for (part, (glyph, style)) in parts.iter().zip(looks) {
        spent += part;
        let upto = ((spent / whole).clamp(0.0, 1.0) * columns as f64).round() as usize;
        spans.push(Span::styled(glyph.repeat(upto.saturating_sub(drawn)), style));
        drawn = drawn.max(upto);
    }
    Line::from(spans)
}

/// And in words, as shares. `signs`: with those of the bar.
pub(super) fn parts_wordings(scene: &Scene<'_>, signs: bool) -> Vec<String> {
    let theme = scene.theme;
    let Some((parts, whole)) = parts(scene) else {
        let words = theme.tr("where the time of a step goes is not known for this model");
        return vec![words.to_owned(), theme.tr("parts of a step: not known").to_owned(), String::new()];
    };
    let rest = (whole - parts.iter().sum::<f64>()).max(0.0);
    let [products, attention, sampling, scheduling] = parts;
    let shares = in_hundredths([products, attention, sampling, scheduling, rest]);
    let [products, attention, sampling, scheduling, rest] = shares.map(|share| format!("{share}%"));
    let long = if signs {
        say!(
            theme,
            "step time: █ products with weights {}, ▓ attention {}, ▒ sampling {}, ░ scheduling {}, the rest {}",
            products,
            attention,
            sampling,
            scheduling,
            rest
        )
    } else {
        say!(
            theme,
            "step time: products with weights {}, attention {}, sampling {}, scheduling {}, the rest {}",
            products,
            attention,
            sampling,
            scheduling,
            rest
        )
    };
    vec![
        long,
        say!(
            theme,
            "products {}, attention {}, sampling {}, scheduling {}, rest {}",
            products,
            attention,
            sampling,
            scheduling,
            rest
        ),
        String::new(),
    ]
}

/// Whole hundredths that make a hundred: each is rounded down, and those that lost most get one back.
fn in_hundredths(parts: [f64; 5]) -> [u32; 5] {
    let whole: f64 = parts.iter().sum();
    let exact = parts.map(|part| if whole > 0.0 { (part / whole * 100.0).clamp(0.0, 100.0) } else { 0.0 });
    let mut shares = exact.map(|share| share as u32);
    let mut order = [0, 1, 2, 3, 4];
    order.sort_by(|a: &usize, b: &usize| exact[*b].fract().total_cmp(&exact[*a].fract()));
    let missing = 100u32.saturating_sub(shares.iter().sum()) as usize;
    for at in order.into_iter().take(if whole > 0.0 { missing } else { 0 }) {
        shares[at] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_make_a_hundred() {
        assert_eq!(in_hundredths([1.0, 1.0, 1.0, 0.0, 0.0]), [34, 33, 33, 0, 0]);
        assert_eq!(in_hundredths([72.6, 17.5, 4.9, 0.8, 4.2]), [73, 17, 5, 1, 4]);
        assert_eq!(in_hundredths([0.0; 5]), [0; 5]);
        for at in 1..200 {
            let parts = [3.7, 11.3, 0.2, 0.01, 5.5].map(|part| part * f64::from(at) + f64::from(at * at % 17));
            assert_eq!(in_hundredths(parts).iter().sum::<u32>(), 100);
        }
    }
}
