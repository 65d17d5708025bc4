//! How many of the target's blocks move to the GPU (method.md, Split target): as many as fit beside
//! the draft, from the bottom up. Must never move one.

use super::overrides::{Limits, Setting};
use super::place::{DraftDevice, room};
use crate::hardware::Machine;

/// Blocks of the target that may be asked for on the GPU.
pub const LAYERS: Limits = Limits { least: 0, most: 4096 };

/// What the blocks take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerSize {
    /// Blocks of the target.
    pub layers: usize,
    /// One block on the GPU, its KV cache included.
    pub layer: u64,
    /// What the draft will need there.
    pub draft: u64,
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerPlacement {
    /// Where.
    pub device: DraftDevice,
    /// How many; 0 leaves the whole target on the CPU.
    pub layers: usize,
    /// Whether any were requested.
    pub requested: bool,
    /// Why, in one sentence.
    pub reason: String,
}

/// Decides how many blocks of the target leave the CPU. The last one, the final norm and the head
/// stay: the features that the draft reads are made there.
pub fn place_layers(setting: Setting, machine: &Machine, size: &LayerSize) -> LayerPlacement {
    let stay = |reason: String| LayerPlacement {
        device: DraftDevice::Cpu,
        layers: 0,
        requested: setting != Setting::Fixed(0),
        reason: format!("The whole target stays on the CPU: {reason}."),
    };
    if setting == Setting::Fixed(0) {
        return stay("as you asked".to_owned());
    }
    let (device, name, room) = match room(machine) {
        Ok(found) => found,
        Err(reason) => return stay(reason),
    };
    let most = size.layers.saturating_sub(1);
    let fit = (room.saturating_sub(size.draft) / size.layer.max(1)) as usize;
    let asked = setting.or(most).min(most);
    let layers = asked.min(fit);
    if layers == 0 {
        return stay(format!(
            "one of its blocks needs {} MiB beside the draft's {} and {name} has {} to give",
            size.layer >> 20,
            size.draft >> 20,
            room >> 20
        ));
    }
    let wanted = if setting.is_fixed() && layers < setting.or(0) {
        format!(" (you asked for {})", setting.or(0))
    } else {
        String::new()
    };
    let reason = format!(
        "{layers} of the target's {} blocks run on {name} in half precision{wanted}: the text is \
         that of this mixture.",
        size.layers
    );
    LayerPlacement { device, layers, requested: true, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::{Cpu, Gpu, GpuFinding, Memory};

    const MIB: u64 = 1 << 20;

    fn machine(free: u64, built: Vec<&'static str>) -> Machine {
        Machine {
            cpu: Cpu { name: "test".into(), physical: 8, logical: 8, features: Vec::new() },
            memory: Memory { total: 8 << 30, free: 8 << 30 },
            gpu: GpuFinding::Found(Gpu {
                name: "a card".into(),
                driver: "1".into(),
                vram_total: free,
                vram_free: free,
                bandwidth: None,
            }),
            built_with: built,
        }
    }

    fn size() -> LayerSize {
        LayerSize { layers: 32, layer: 400 * MIB, draft: 2700 * MIB }
    }

    #[test]
    fn what_the_draft_leaves_is_filled_from_the_bottom() {
        // Nine tenths of 8 GiB, less the context's 400 MiB and the draft: 4272 MiB.
        let placed = place_layers(Setting::Auto, &machine(8192 * MIB, vec!["cuda"]), &size());
        assert_eq!((placed.device, placed.layers), (DraftDevice::Cuda, 10));
        assert!(placed.reason.starts_with("10 of the target's 32 blocks run on a card"));
        let asked = place_layers(Setting::Fixed(4), &machine(8192 * MIB, vec!["cuda"]), &size());
        assert_eq!(asked.layers, 4);
        let greedy = place_layers(Setting::Fixed(20), &machine(8192 * MIB, vec!["cuda"]), &size());
        assert_eq!(greedy.layers, 10);
        assert!(greedy.reason.contains("(you asked for 20)"), "{}", greedy.reason);
    }

    #[test]
    fn the_last_block_stays_however_large_the_card() {
        let placed = place_layers(Setting::Auto, &machine(1 << 40, vec!["cuda"]), &size());
        assert_eq!(placed.layers, 31);
    }

    #[test]
    fn without_room_or_card_or_build_the_reason_is_said() {
        let small = place_layers(Setting::Auto, &machine(3000 * MIB, vec!["cuda"]), &size());
        assert_eq!(small.layers, 0);
        assert!(small.reason.contains("needs 400 MiB beside the draft's 2700"), "{}", small.reason);
        let unbuilt = place_layers(Setting::Auto, &machine(8192 * MIB, Vec::new()), &size());
        assert!(unbuilt.reason.contains("--features cuda"), "{}", unbuilt.reason);
        let reason = "no NVIDIA GPU: its driver is not installed".to_owned();
        let bare = Machine { gpu: GpuFinding::Absent { reason }, ..machine(0, vec!["cuda"]) };
        let absent = place_layers(Setting::Auto, &bare, &size());
        assert_eq!((absent.device, absent.layers), (DraftDevice::Cpu, 0));
        assert!(absent.reason.contains("no NVIDIA GPU"), "{}", absent.reason);
    }
}
