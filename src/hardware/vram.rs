//! Video memory from the files of the Linux kernel: those of amdgpu and of Intel's cards. It must
//! not depend on a vendor's library.

use std::path::Path;

/// Where the kernel lists devices by their place on the PCI bus.
pub(super) const DEVICES: &str = "/sys/bus/pci/devices";

/// A card's memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vram {
    /// The total.
    pub total: u64,
    /// Used by all processes.
    pub used: u64,
}

impl Vram {
    /// Not in use.
    pub fn free(self) -> u64 {
        self.total.saturating_sub(self.used)
    }
}

/// The memory of the card at this place; `None` if no file reports it.
pub(super) fn of(devices: &Path, bus: &str) -> Option<Vram> {
    if bus.is_empty() || bus.contains(['/', '\\']) {
        return None;
    }
    let device = devices.join(bus);
    let number = |file: &Path| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let amd = |what: &str| number(&device.join(format!("mem_info_vram_{what}")));
    if let Some((total, used)) = amd("total").zip(amd("used")) {
        return (total > 0).then_some(Vram { total, used });
    }
    // Intel's files are below its display device.
    let cards = std::fs::read_dir(device.join("drm")).ok()?;
    cards.flatten().find_map(|card| {
        let intel = |what: &str| number(&card.path().join(format!("lmem_{what}_bytes")));
        let (total, free) = intel("total").zip(intel("avail"))?;
        (total > 0).then(|| Vram { total, used: total.saturating_sub(free) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read_where_there_are_any() {
        let devices = tempfile::tempdir().unwrap();
        let folder = |path: &str| {
            let folder = devices.path().join(path);
            std::fs::create_dir_all(&folder).unwrap();
            folder
        };
        let write = |folder: &Path, name: &str, value: &str| {
            std::fs::write(folder.join(name), value).unwrap();
        };
        let amd = folder("0000:03:00.0");
        write(&amd, "mem_info_vram_total", "4294967296\n");
        write(&amd, "mem_info_vram_used", "1073741824\n");
        let intel = folder("0000:04:00.0/drm/card1");
        write(&intel, "lmem_total_bytes", "2000\n");
        write(&intel, "lmem_avail_bytes", "1500\n");
        let broken = folder("0000:05:00.0");
        write(&broken, "mem_info_vram_total", "many\n");
        let at = |bus: &str| of(devices.path(), bus);
        assert_eq!(at("0000:03:00.0"), Some(Vram { total: 4 << 30, used: 1 << 30 }));
        assert_eq!(at("0000:04:00.0"), Some(Vram { total: 2000, used: 500 }));
        for none in ["0000:05:00.0", "0000:09:00.0", "", "../0000:03:00.0"] {
            assert_eq!(at(none), None, "{none}");
        }
        assert_eq!(Vram { total: 5, used: 2 }.free(), 3);
    }
}
