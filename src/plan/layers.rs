//! How many of the target's blocks move to the GPU (method.md, Split target): as many as fit
//! together with the draft, from the bottom up. It must never move one.

use super::overrides::{DeviceChoice, Limits, Setting};
use super::place::{DraftDevice, GpuRoom, gpu_room};
use super::reason::{Obstacle, Reason};
use crate::hardware::Machine;

/// How many blocks of the target may be requested on the GPU.
pub const LAYERS: Limits = Limits { least: 0, most: 4096 };

/// The size of the blocks in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerSize {
    /// How many blocks the target has.
    pub layers: usize,
    /// One block on the GPU, including its KV cache.
    pub layer: u64,
    /// The final norm and the LM head, which move together with the last block.
    pub head: u64,
    /// What the draft will need there.
    pub draft: u64,
    /// What a small model will need there next to a part of the target; next to the whole target it
    /// drafts on the CPU.
    pub small: u64,
}

impl LayerSize {
    /// How many bytes the first `layers` blocks take, with the LM head if these are all.
    pub(super) fn held(&self, layers: usize) -> u64 {
        layers as u64 * self.layer + if layers == self.layers { self.head } else { 0 }
    }

    /// How many blocks fit in `room` if others take this many bytes of it.
    pub(super) fn fitting(&self, room: u64, taken: u64) -> usize {
        let left = room.saturating_sub(taken);
        let fit = (left / self.layer.max(1)).min(self.layers as u64) as usize;
        let with_head = fit == self.layers && left - fit as u64 * self.layer < self.head;
        if with_head { self.layers.saturating_sub(1) } else { fit }
    }
}

/// The decision.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerPlacement {
    /// The device.
    pub device: DraftDevice,
    /// The most bytes that may be used there.
    pub room: u64,
    /// How many blocks; 0 leaves the whole target on the CPU, and if all of them are there, the LM
    /// head is too.
    pub layers: usize,
    /// Whether any were requested.
    pub requested: bool,
    /// Why.
    pub reason: Reason,
}

impl LayerPlacement {
    /// The same placement, but with only the first `layers` of the target's `of` blocks there,
    /// because no more fit on `gpu`.
    #[must_use]
    pub fn cut_to(&self, layers: usize, of: usize, gpu: &str) -> Self {
        let reason = Reason::TargetCut { gpu: gpu.to_owned(), layers, of };
        Self { layers, reason, ..self.clone() }
    }

    /// All `layers` blocks are computed on a GPU, to which every pass sends them from main memory;
    /// or on the CPU if there is no such GPU.
    pub fn streamed(room: Result<GpuRoom, Obstacle>, layers: usize) -> Self {
        match room {
            Ok(GpuRoom { number, name, bytes, .. }) => Self {
                device: DraftDevice::Gpu(number),
                room: bytes,
                layers,
                requested: true,
                reason: Reason::TargetStreamed { gpu: name },
            },
            Err(why) => Self {
                device: DraftDevice::Cpu,
                room: 0,
                layers: 0,
                requested: true,
                reason: Reason::TargetOnCpu(why),
            },
        }
    }
}

/// Decides how many blocks of the target leave the CPU. The final norm and the LM head move with
/// the last block. `vram` is the GPU memory that the user stated.
pub fn place_layers(
    setting: Setting,
    (choice, vram): (DeviceChoice, Option<u64>),
    machine: &Machine,
    size: LayerSize,
) -> LayerPlacement {
    let stay = |why: Obstacle| LayerPlacement {
        device: DraftDevice::Cpu,
        room: 0,
        layers: 0,
        requested: setting != Setting::Fixed(0),
        reason: Reason::TargetOnCpu(why),
    };
    if setting == Setting::Fixed(0) {
        return stay(Obstacle::Chosen);
    }
    let GpuRoom { number, name: gpu, bytes: room, .. } = match gpu_room(choice, machine, vram) {
        Ok(found) => found,
        Err(why) => return stay(why),
    };
    let of = size.layers;
    let asked = setting.or(of).min(of);
    let both = size.draft.saturating_add(size.small);
    let is_whole = asked == of && size.fitting(room, size.draft) == of;
    // A small model that does not fit there drafts on the CPU anyway.
    let beside = if is_whole || both > room { size.draft } else { both };
    let layers = asked.min(size.fitting(room, beside));
    if layers == 0 {
        return stay(Obstacle::BlockTooLarge { block: size.layer, draft: beside, gpu, room });
    }
    let reason = if layers == of {
        Reason::TargetOnGpu { gpu }
    } else {
        let asked = setting.or(0).min(of);
        let asked = (setting.is_fixed() && layers < asked).then_some(asked);
        Reason::TargetSplit { gpu, layers, of, asked }
    };
    let device = DraftDevice::Gpu(number);
    LayerPlacement { device, room, layers, requested: true, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::{Adapter, AdapterKind, Cpu, Gpu, GpuFinding, Memory, Vram};

    const MIB: u64 = 1 << 20;

    /// With a card of which this many bytes are free.
    fn machine(free: u64) -> Machine {
        let card = Adapter {
            number: 0,
            name: "a Radeon".into(),
            kind: AdapterKind::Discrete,
            interface: "Vulkan".into(),
            driver: "radv".into(),
            memory: Some(Vram { total: free, used: 0 }),
        };
        Machine {
            cpu: Cpu {
                name: "test".into(),
                physical: 8,
                logical: 8,
                performance: None,
                features: Vec::new(),
            },
            memory: Memory { total: 8 << 30, free: 8 << 30 },
            gpu: GpuFinding::Absent { reason: "no NVIDIA GPU".into() },
            adapters: vec![card],
        }
    }

    fn size() -> LayerSize {
        LayerSize { layers: 32, layer: 400 * MIB, head: 250 * MIB, draft: 2700 * MIB, small: 0 }
    }

    /// With a card of which the user says that it has this many MiB.
    fn placed_in(setting: Setting, vram: u64, size: LayerSize) -> LayerPlacement {
        let choice = (DeviceChoice::Auto, Some(vram * MIB));
        place_layers(setting, choice, &machine(0), size)
    }

    fn placed_on(setting: Setting, machine: &Machine) -> LayerPlacement {
        place_layers(setting, (DeviceChoice::Auto, None), machine, size())
    }

    #[test]
    fn what_the_draft_leaves_is_filled_from_the_bottom() {
        // Nine tenths of 8 GiB, minus the draft: 4672 MiB.
        let placed = placed_on(Setting::Auto, &machine(8192 * MIB));
        assert_eq!((placed.device, placed.layers), (DraftDevice::Gpu(0), 11));
        assert!(
            matches!(
                &placed.reason,
                Reason::TargetSplit { gpu, layers: 11, of: 32, asked: None } if gpu == "a Radeon"
            ),
            "{:?}",
            placed.reason
        );
        let asked = placed_on(Setting::Fixed(4), &machine(8192 * MIB));
        assert_eq!(asked.layers, 4);
        let greedy = placed_on(Setting::Fixed(20), &machine(8192 * MIB));
        assert_eq!(greedy.layers, 11);
        assert!(
            matches!(greedy.reason, Reason::TargetSplit { asked: Some(20), .. }),
            "{:?}",
            greedy.reason
        );
    }

    #[test]
    fn all_of_it_goes_there_if_the_head_fits_too() {
        let all = |vram: u64| placed_in(Setting::Fixed(LAYERS.most), vram, size());
        let whole = all(2700 + 32 * 400 + 250);
        assert_eq!((whole.device, whole.layers), (DraftDevice::Gpu(0), 32));
        assert_eq!(whole.reason, Reason::TargetOnGpu { gpu: "a Radeon".to_owned() });
        let almost = all(2700 + 32 * 400 + 249);
        assert_eq!(almost.layers, 31);
        assert!(
            matches!(almost.reason, Reason::TargetSplit { asked: Some(32), .. }),
            "{:?}",
            almost.reason
        );
    }

    #[test]
    fn a_small_model_has_room_beside_a_part_and_none_beside_the_whole() {
        let whole = 2700 + 32 * 400 + 250;
        let layers = |setting: Setting, vram: u64, small: u64| {
            placed_in(setting, vram, LayerSize { small: small * MIB, ..size() }).layers
        };
        for (setting, vram, small, expected) in [
            // Everything fits: the small model drafts on the CPU.
            (Setting::Fixed(LAYERS.most), whole, 800, 32),
            (Setting::Auto, whole, 800, 32),
            // A part of the target leaves it room, whether it was requested or not.
            (Setting::Auto, whole - 1, 800, 30),
            (Setting::Fixed(31), whole, 800, 30),
            (Setting::Fixed(8), whole, 800, 8),
            (Setting::Auto, 2700 + 800 + 10 * 400, 800, 10),
            // If it does not fit at all, there is no reason to leave room.
            (Setting::Auto, 2700 + 10 * 400, 8000, 10),
        ] {
            assert_eq!(layers(setting, vram, small), expected, "{setting:?} {vram} {small}");
        }
    }

    #[test]
    fn without_room_or_card_or_driver_there_is_a_reason() {
        let small = placed_on(Setting::Auto, &machine(3000 * MIB));
        assert_eq!(small.layers, 0);
        let why = Reason::TargetOnCpu(Obstacle::BlockTooLarge {
            block: 400 * MIB,
            draft: 2700 * MIB,
            gpu: "a Radeon".to_owned(),
            room: 3000 * MIB / 10 * 9,
        });
        assert_eq!(small.reason, why);
        let bare = Machine { adapters: Vec::new(), ..machine(0) };
        let absent = placed_on(Setting::Auto, &bare);
        assert_eq!((absent.device, absent.layers), (DraftDevice::Cpu, 0));
        assert_eq!(absent.reason, Reason::TargetOnCpu(Obstacle::NoGpu));
        let card = Gpu {
            name: "a GeForce".into(),
            driver: "1".into(),
            vram_total: 8192 * MIB,
            vram_free: 8192 * MIB,
            bandwidth: None,
        };
        let unlisted = placed_on(Setting::Auto, &Machine { gpu: GpuFinding::Found(card), ..bare });
        let why = Obstacle::NoVulkan("a GeForce".to_owned());
        assert_eq!(unlisted.reason, Reason::TargetOnCpu(why));
    }
}
