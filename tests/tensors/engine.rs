//! The tensor path behind a running engine.

use batchroom::batch::UserId;
use batchroom::config::{DeviceChoice, EngineConfig, RawConfig};
use batchroom::engine::{EngineHandle, Event, FinishReason, Pace};
use batchroom::hub::Choice;
use batchroom::launch::{LaunchError, launch};
use batchroom::sampling::SamplingParams;
use batchroom::text::{Message, Role};

fn config(device: DeviceChoice) -> EngineConfig {
    EngineConfig { device, ..RawConfig { threads: Some(2), ..RawConfig::default() }.check().unwrap().engine }
}

fn start(device: DeviceChoice) -> Result<EngineHandle, LaunchError> {
    launch(&Choice::Nano, &config(device), 4, Pace::Full)
}

async fn answer(engine: &EngineHandle, user: u32, prompt: &str) -> String {
    let greedy = SamplingParams { temperature: 0.0, repetition_penalty: 1.0, max_tokens: 40, ..SamplingParams::default() };
    let messages = [Message { role: Role::User, content: prompt.into() }];
    let (_, mut events) = engine.chat(UserId(user), &messages, greedy);
    let mut text = String::new();
    loop {
        match events.recv().await.expect("an end") {
            Event::Token { text: piece, .. } => text.push_str(&piece),
            Event::Finished(end) => {
                assert_eq!(end.reason, FinishReason::Stop, "{:?}", end.message);
                return text + &end.text;
            }
            Event::Rejected(why) => panic!("{why}"),
            _ => {}
        }
    }
}

/// Among the reference prompts this one's choices are all wide: the best token is 0.7 and more above the second
/// (`margins` in `tests/data/nano.golden.json`), which is far more than rounding to 16 bits moves them.
const PROMPT: &str = "What is a boat?";

#[tokio::test]
async fn an_engine_says_the_same_on_both_paths() {
    let (kernels, tensors) = (start(DeviceChoice::Cpu).unwrap(), start(DeviceChoice::Candle).unwrap());
    assert_eq!(tensors.snapshots().borrow().model.kernels, "candle-cpu");
    let expected = answer(&kernels, 0, PROMPT).await;
    assert!(expected.len() > 20, "{expected}");
    // Alone, and in a batch with others.
    assert_eq!(answer(&tensors, 0, PROMPT).await, expected);
    let together = tokio::join!(answer(&tensors, 0, PROMPT), answer(&tensors, 1, PROMPT), answer(&tensors, 2, PROMPT));
    assert_eq!(together, (expected.clone(), expected.clone(), expected));
}

#[test]
fn a_device_that_is_not_in_the_build_is_named() {
    for (device, name, built) in
        [(DeviceChoice::Cuda, "cuda", cfg!(feature = "cuda")), (DeviceChoice::Metal, "metal", cfg!(feature = "metal"))]
    {
        if !built {
            let error = start(device).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(&format!("--features {name}")), "{error}");
        }
    }
}
