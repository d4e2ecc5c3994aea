//! Machines by name, with the figures of their data sheets.

/// Shares of the data sheet's figures that large models are seen to reach. Assumptions, not measurements.
const BANDWIDTH_EFFICIENCY: f64 = 0.8;
const FLOPS_EFFICIENCY: f64 = 0.6;
/// Seconds between two steps in which the device waits: launches, scheduling, sampling, detokenizing. An assumption.
const STEP_OVERHEAD: f64 = 1e-3;
/// Seconds a token on top of it. An assumption.
const TOKEN_OVERHEAD: f64 = 1e-6;

/// What a machine can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    pub name: String,
    /// Of memory, bytes a second.
    pub bandwidth: f64,
    /// Dense 16-bit matrix products with 32-bit sums, FLOPs a second.
    pub flops: f64,
    /// Bytes for weights, keys and values.
    pub memory: u64,
    /// Shares of `bandwidth` and of `flops` that are reached.
    pub bandwidth_efficiency: f64,
    pub flops_efficiency: f64,
    /// Seconds, for each step.
    pub step_overhead: f64,
    /// Seconds, for each token that a step computes.
    pub token_overhead: f64,
}

/// Name, memory in GB (1e9 bytes), bandwidth in GB/s, dense 16-bit TFLOP/s.
///
/// NVIDIA: data sheets of L4, L40S, A100, H100 SXM, H200 SXM and the GA102, Ada and Blackwell architecture papers (GeForce:
/// 16-bit products with 32-bit sums); where a sheet gives figures with sparsity, half of them. AMD: data sheet of the
/// MI300X. Apple: bandwidth from the technical specifications; it publishes no FLOP/s, so cores x 128 units x 2 x clock
/// (M3 Max: 40 cores at 1.38 GHz; M2 Ultra: 76 at 1.4 GHz), and memory is the three quarters of 128 and 192 GB that macOS
/// lets a GPU have.
pub const HARDWARE: [(&str, f64, f64, f64); 12] = [
    ("rtx-3090", 24.0, 936.0, 71.0),
    ("rtx-4090", 24.0, 1008.0, 165.2),
    ("rtx-5090", 32.0, 1792.0, 209.5),
    ("l4", 24.0, 300.0, 121.0),
    ("l40s", 48.0, 864.0, 362.0),
    ("a100-40gb", 40.0, 1555.0, 312.0),
    ("a100-80gb", 80.0, 2039.0, 312.0),
    ("h100", 80.0, 3350.0, 989.0),
    ("h200", 141.0, 4800.0, 989.0),
    ("mi300x", 192.0, 5300.0, 1307.0),
    ("m3-max", 96.0, 400.0, 14.1),
    ("m2-ultra", 144.0, 800.0, 27.2),
];

/// A name that no machine has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no hardware called `{0}`: choose one of {list} or this-machine, or give figures (--bandwidth, --flops, --memory)", list = names())]
pub struct UnknownHardware(pub String);

fn names() -> String {
    HARDWARE.map(|row| row.0).join(", ")
}

impl Hardware {
    /// The machine of this name, in whatever case it is written.
    ///
    /// # Errors
    /// When there is none; the message lists the names.
    pub fn by_name(name: &str) -> Result<Hardware, UnknownHardware> {
        let row = HARDWARE.iter().find(|row| row.0.eq_ignore_ascii_case(name));
        let (name, memory, bandwidth, flops) = row.ok_or_else(|| UnknownHardware(name.to_owned()))?;
        Ok(Hardware {
            name: (*name).to_owned(),
            bandwidth: bandwidth * 1e9,
            flops: flops * 1e12,
            memory: (memory * 1e9) as u64,
            bandwidth_efficiency: BANDWIDTH_EFFICIENCY,
            flops_efficiency: FLOPS_EFFICIENCY,
            step_overhead: STEP_OVERHEAD,
            token_overhead: TOKEN_OVERHEAD,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_any_case_and_a_wrong_one_lists_all() {
        let card = Hardware::by_name("RTX-4090").unwrap();
        assert_eq!((card.memory, card.bandwidth), (24_000_000_000, 1.008e12));
        let message = Hardware::by_name("abacus").unwrap_err().to_string();
        assert!(message.contains("`abacus`") && HARDWARE.iter().all(|row| message.contains(row.0)), "{message}");
    }

    #[test]
    fn every_machine_is_one_that_could_be() {
        for (name, ..) in HARDWARE {
            let machine = Hardware::by_name(name).unwrap();
            // FLOPs a byte: where its roofline bends.
            let bend = machine.flops / machine.bandwidth;
            assert!((20.0..500.0).contains(&bend), "{name}: {bend}");
        }
    }
}
