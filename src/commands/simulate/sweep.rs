//! `--sweep`: one simulation for each of several values.

use anyhow::{Context, bail, ensure};

use super::plan::Plan;
use super::quantity;
use crate::cli::SimulateArgs;
use crate::config::RawConfig;
use crate::simulate::{Arrivals, Load, Points};

/// What a sweep changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    Users,
    Rate,
    MaxNumSeqs,
    PrefillChunk,
    KvMemory,
}

const PARAMETERS: [(&str, Parameter); 5] = [
    ("users", Parameter::Users),
    ("rate", Parameter::Rate),
    ("max-num-seqs", Parameter::MaxNumSeqs),
    ("prefill-chunk", Parameter::PrefillChunk),
    ("kv-memory", Parameter::KvMemory),
];

/// A sweep: which parameter, which values.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    pub parameter: Parameter,
    pub points: Points,
}

impl Parameter {
    pub fn name(self) -> &'static str {
        PARAMETERS.iter().find(|row| row.1 == self).map_or("", |row| row.0)
    }

    fn value(self, text: &str) -> anyhow::Result<f64> {
        match self {
            Parameter::KvMemory => Ok(quantity::size("--sweep kv-memory", text)? as f64),
            Parameter::Rate => text.trim().parse().with_context(|| format!("--sweep rate: `{text}` is no rate")),
            _ => {
                let whole: u32 = text.trim().parse().with_context(|| format!("--sweep {}: `{text}`", self.name()))?;
                Ok(f64::from(whole))
            }
        }
    }
}

impl Sweep {
    /// `users=10..400`, with so many points; or `users=1,2,4`.
    ///
    /// # Errors
    /// When there is no such parameter, or these are no values of it.
    pub fn parse(text: &str, count: usize) -> anyhow::Result<Sweep> {
        let known = || PARAMETERS.map(|row| row.0).join(", ");
        let Some((name, values)) = text.split_once('=') else {
            bail!("--sweep is `{text}`: write NAME=LOW..HIGH or NAME=A,B,C, where NAME is one of {}", known());
        };
        let parameter = PARAMETERS.iter().find(|row| row.0 == name.trim().replace('_', "-")).map(|row| row.1);
        let parameter = parameter.with_context(|| format!("--sweep: `{name}` is none of {}", known()))?;
        let whole = parameter != Parameter::Rate;
        let points = match values.split_once("..") {
            Some((low, high)) => Points::geometric(parameter.value(low)?, parameter.value(high)?, count, whole),
            None => {
                Points::list(values.split(',').take(1000).map(|value| parameter.value(value)).collect::<Result<_, _>>()?, whole)
            }
        };
        Ok(Sweep { parameter, points: points.with_context(|| format!("--sweep {text}"))? })
    }

    /// What is swept is not said in another way too: one of the two would count for nothing.
    ///
    /// # Errors
    /// When it is.
    pub fn alone(&self, args: &SimulateArgs, options: &RawConfig) -> anyhow::Result<()> {
        let other = match self.parameter {
            Parameter::Users if args.users.is_some() => "--users",
            Parameter::Users if args.arrivals.starts_with("closed:") && !args.arrivals.starts_with("closed:think") => {
                "the number of people in --arrivals"
            }
            Parameter::MaxNumSeqs if options.max_num_seqs.is_some() => "--max-num-seqs",
            Parameter::PrefillChunk if options.prefill_chunk.is_some() => "--prefill-chunk",
            Parameter::KvMemory if options.kv_memory.is_some() => "--kv-memory",
            _ => return Ok(()),
        };
        bail!("--sweep {} and {other} both say it: give one of them", self.parameter.name())
    }

    /// The plan with this value.
    ///
    /// # Errors
    /// When the plan has no such parameter, or the value is out of its range.
    pub fn apply(&self, plan: &Plan, value: f64) -> anyhow::Result<Plan> {
        let mut plan = plan.clone();
        match self.parameter {
            Parameter::Users => match &mut plan.load {
                Load::Drawn(Arrivals::Closed { users, .. }) => {
                    ensure!(value <= f64::from(crate::simulate::MAX_USERS), "--sweep users: {value} are too many");
                    plan.users = value as u32;
                    *users = Some(value as u32);
                }
                _ => bail!("--sweep users is of closed arrivals, and --arrivals is {}", plan.arrivals),
            },
            Parameter::Rate => {
                let swept = match &plan.load {
                    Load::Drawn(Arrivals::Poisson { .. }) => format!("poisson:{value}").parse(),
                    Load::Drawn(Arrivals::Day { .. }) => format!("day:{value}").parse(),
                    _ => bail!("--sweep rate is of --arrivals poisson:RATE or day:RATE, and --arrivals is {}", plan.arrivals),
                };
                plan.load = Load::Drawn(swept.context("--sweep rate")?);
            }
            Parameter::MaxNumSeqs => plan.max_num_seqs = value as usize,
            Parameter::PrefillChunk => plan.prefill_chunk = value as usize,
            Parameter::KvMemory => plan.kv_memory = Some(value as u64),
        }
        plan.check()?;
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let sweep = Sweep::parse("users=10..1000", 3).unwrap();
        assert_eq!((sweep.parameter, sweep.points.values()), (Parameter::Users, [10.0, 100.0, 1000.0].as_slice()));
        assert_eq!(Sweep::parse("kv_memory=2GB,1GB", 8).unwrap().points.values(), [1e9, 2e9]);
        assert_eq!(Sweep::parse("rate=0.5..2", 3).unwrap().points.values()[1], 1.0);
        let bad = [
            "users",
            "speed=1..2",
            "users=1..",
            "users=2..1",
            "users=0..4",
            "rate=nan..1",
            "users=1.5,2",
            "kv-memory=1..x",
            "users=",
        ];
        for bad in bad {
            let message = format!("{:#}", Sweep::parse(bad, 4).unwrap_err());
            assert!(message.contains("--sweep"), "{bad}: {message}");
        }
        assert!(Sweep::parse("users=1..9", 1).is_err() && Sweep::parse("users=1..9", 65).is_err());
    }
}
