//! Where a draft and the target's blocks go, and why.

use super::*;

#[test]
fn placement_says_what_stands_in_the_way() {
    let on = |wish, machine: &Machine, draft: DraftSize| {
        let placed = placed_draft(wish, machine, None, draft, 64 << 20);
        (placed.gpu, placed.blocks, placed.refused().is_some(), placed.reason)
    };
    let with = |vram: Option<u64>| machine(cpu(8, &[]), vram.map(|vram| (vram, 1e11)));
    let fixed = DraftSize { elastic: false, ..HEAD_7B };
    let on_cpu = |refused: bool, why: Obstacle| (None, 5, refused, Reason::DraftOnCpu(why));
    let gpu = || "TestForce 1".to_owned();
    let memory = |free: u64, total: u64| GpuMemory::Known { free: free << 20, total: total << 20 };
    let on_gpu = |blocks: usize, memory: GpuMemory| {
        let fit = (blocks < 5).then_some((blocks, 5));
        (Some(0), blocks, false, Reason::DraftOnGpu { gpu: gpu(), memory, fit })
    };
    for (wish, vram, expected) in [
        (DeviceChoice::Auto, None, on_cpu(false, Obstacle::NoGpu)),
        (DeviceChoice::Gpu(None), None, on_cpu(true, Obstacle::NoGpu)),
        (DeviceChoice::Cpu, Some(8 * GIB), on_cpu(false, Obstacle::Chosen)),
        (DeviceChoice::Auto, Some(8 * GIB), on_gpu(5, memory(7936, 8192))),
        (DeviceChoice::Auto, Some(2 * GIB), on_gpu(2, memory(1792, 2048))),
    ] {
        assert_eq!(on(wish, &with(vram), HEAD_7B), expected, "{wish:?}");
    }
    let no_driver = Machine { adapters: Vec::new(), ..with(Some(8 * GIB)) };
    let expected = on_cpu(false, Obstacle::NoVulkan(gpu()));
    assert_eq!(on(DeviceChoice::Auto, &no_driver, HEAD_7B), expected);
    for (vram, head) in [(2 * GIB, fixed), (GIB / 2, HEAD_7B)] {
        let (gpu, blocks, refused, reason) = on(DeviceChoice::Auto, &with(Some(vram)), head);
        assert_eq!((gpu, blocks, refused), (None, 5, false));
        assert!(
            matches!(reason, Reason::DraftOnCpu(Obstacle::DraftTooLarge { needed, room, .. })
                if needed > room),
            "{reason:?}"
        );
    }
}

/// A card with 400 MiB per block and 250 MiB for the head, of which the draft takes 2700 MiB.
#[test]
fn blocks_of_the_target_fill_what_drafts_leave() {
    let size = LayerSize { layers: 32, layer: 400 * MIB, cache: 8 * MIB, head: 250 * MIB };
    let card = |bytes: u64| GpuRoom {
        number: 0,
        name: "a Radeon".into(),
        bytes: bytes * MIB,
        memory: GpuMemory::Unknown,
    };
    let placed = |setting, room, small: u64| {
        let drafts = DraftBytes { draft: 2700 * MIB, small: small * MIB };
        place_layers(setting, Ok(card(room)), size, drafts)
    };
    let all = Setting::Fixed(LAYERS.most);
    let whole = 2700 + 32 * 400 + 250;
    let split =
        |layers, asked| Reason::TargetSplit { gpu: "a Radeon".to_owned(), layers, of: 32, asked };
    let on_gpu = || Reason::TargetOnGpu { gpu: "a Radeon".to_owned() };
    for (setting, room, small, layers, reason) in [
        (Setting::Auto, 7372, 0, 11, split(11, None)),
        (Setting::Fixed(4), 7372, 0, 4, split(4, None)),
        (Setting::Fixed(20), 7372, 0, 11, split(11, Some(20))),
        (all, whole, 0, 32, on_gpu()),
        (all, whole - 1, 0, 31, split(31, Some(32))),
        // Everything fits: a small model drafts on the CPU.
        (all, whole, 800, 32, on_gpu()),
        (Setting::Auto, whole, 800, 32, on_gpu()),
        // A part of the target leaves it room, whether it was requested or not.
        (Setting::Auto, whole - 1, 800, 30, split(30, None)),
        (Setting::Fixed(31), whole, 800, 30, split(30, Some(31))),
        (Setting::Fixed(8), whole, 800, 8, split(8, None)),
        (Setting::Auto, 2700 + 800 + 10 * 400, 800, 10, split(10, None)),
        // If it does not fit at all, there is no reason to leave room.
        (Setting::Auto, 2700 + 10 * 400, 8000, 10, split(10, None)),
    ] {
        let found = placed(setting, room, small);
        let expected = (Some(0), layers, &reason);
        assert_eq!((found.gpu, found.blocks, &found.reason), expected, "{setting:?} {room}");
    }
    let small = placed(Setting::Auto, 2700, 0);
    assert!(
        matches!(
            small.reason,
            Reason::TargetOnCpu(Obstacle::BlockTooLarge { block: 0x1900_0000, draft, room, .. })
                if draft == room
        ),
        "{small:?}"
    );
    let none = place_layers(Setting::Auto, Err(Obstacle::NoGpu), size, DraftBytes::default());
    assert_eq!((none.gpu, none.blocks), (None, 0));
    assert_eq!(none.refused(), Some(&Reason::TargetOnCpu(Obstacle::NoGpu)));
}
