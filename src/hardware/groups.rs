//! Linux control groups: the limits that a container or a service runs under, of both versions. It
//! must not depend on what they limit.

use std::fs;
use std::path::{Path, PathBuf};

use super::machine::Memory;

/// The groups of this process.
pub(super) struct Groups {
    /// Where they are mounted.
    root: PathBuf,
    /// The process's groups as the kernel lists them (`/proc/self/cgroup`).
    listed: String,
}

/// A folder of one group, and whether its files are those of version 2.
type Level = (PathBuf, bool);

impl Groups {
    /// Those of this process; none where the system has none.
    pub(super) fn current() -> Self {
        let listed = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self { root: "/sys/fs/cgroup".into(), listed }
    }

    /// The groups under `controller`, each with those that it is nested in, as far as they can be
    /// seen: a container sees its own group as the root.
    fn levels(&self, controller: &str) -> Vec<Level> {
        let mut all = Vec::new();
        for line in self.listed.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(names), Some(path)) = (parts.next(), parts.next()) else { continue };
            let v2 = names.is_empty();
            let mounted = match (v2, names.split(',').any(|name| name == controller)) {
                (true, _) => self.root.clone(),
                (_, true) => self.root.join(controller),
                _ => continue,
            };
            for level in Path::new(path.trim_start_matches('/')).ancestors() {
                // A path from outside of the container must not lead out of the folder.
                if !level.components().any(|part| part.as_os_str() == "..") {
                    all.push((mounted.join(level), v2));
                }
            }
        }
        all
    }

    /// `machine`'s memory as the groups limit it: the smallest limit, and the least that is free in
    /// any of them.
    pub(super) fn memory(&self, machine: Memory) -> Memory {
        self.levels("memory").iter().filter_map(limited).fold(machine, |memory, (total, used)| {
            Memory {
                total: memory.total.min(total),
                free: memory.free.min(total.saturating_sub(used)),
            }
        })
    }

    /// How many CPUs' worth of time the groups allow, rounded, at least 1; `None` without a limit.
    /// A quota takes no core away, so it says nothing about which threads can run.
    pub(super) fn cpus(&self) -> Option<usize> {
        let share = |(folder, v2): &Level| {
            let text = match v2 {
                true => fs::read_to_string(folder.join("cpu.max")).ok()?,
                false => ["quota", "period"]
                    .map(|of| fs::read_to_string(folder.join(format!("cpu.cfs_{of}_us"))))
                    .into_iter()
                    .collect::<Result<String, _>>()
                    .ok()?,
            };
            let mut parts = text.split_whitespace().map(str::parse::<f64>);
            let (quota, period) = (parts.next()?.ok()?, parts.next()?.ok()?);
            (quota > 0.0 && period > 0.0).then_some(quota / period)
        };
        let least = self.levels("cpu").iter().filter_map(share).min_by(f64::total_cmp)?;
        Some(least.round().max(1.0) as usize)
    }
}

/// The limit of one group, and how much of it is in use and cannot be reclaimed; `None` if it has
/// no limit.
fn limited((folder, v2): &Level) -> Option<(u64, u64)> {
    let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok();
    let (limit, used): (Option<u64>, Option<u64>) = match v2 {
        true => {
            let limits = ["memory.max", "memory.high"].into_iter().filter_map(number);
            (limits.min(), number("memory.current"))
        }
        false => (number("memory.limit_in_bytes"), number("memory.usage_in_bytes")),
    };
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let of = |name: &str| {
        // Version 1 has the numbers of the group alone and, as `total_…`, of all within it.
        let name = if *v2 { name.to_owned() } else { format!("total_{name}") };
        let line = |line: &str| line.strip_prefix(&name)?.strip_prefix(' ')?.trim().parse().ok();
        stat.lines().find_map(line).unwrap_or(0u64)
    };
    // Page cache that is clean and that nobody has mapped is dropped when memory is asked for. A
    // file that was read twice is among the active pages, so they count as well.
    let [mapped, dirty, writeback] = match v2 {
        true => ["file_mapped", "file_dirty", "file_writeback"],
        false => ["mapped_file", "dirty", "writeback"],
    }
    .map(of);
    let cached = of("inactive_file") + of("active_file");
    let clean = cached.saturating_sub(mapped + dirty + writeback);
    Some((limit?, used.unwrap_or(0).saturating_sub(clean)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(listed: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, Groups) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let groups = Groups { root: folder.path().to_owned(), listed: listed.to_owned() };
        (folder, groups)
    }

    const MACHINE: Memory = Memory { total: 16_000, free: 9_000 };

    #[test]
    fn clean_page_cache_is_free_in_both_versions() {
        let stat =
            "anon 100\ninactive_file 2000\nactive_file 1000\nfile_mapped 300\nfile_dirty 200\n";
        let files =
            [("a/memory.max", "4000\n"), ("a/memory.current", "3200\n"), ("a/memory.stat", stat)];
        let (_folder, v2) = groups("0::/a\n", &files);
        assert_eq!(v2.memory(MACHINE), Memory { total: 4000, free: 3300 });
        let stat = "inactive_file 9\ntotal_inactive_file 2000\ntotal_active_file 1000\n\
                    total_mapped_file 300\ntotal_dirty 200\n";
        let files = [
            ("memory/a/memory.limit_in_bytes", "4000\n"),
            ("memory/a/memory.usage_in_bytes", "3200\n"),
            ("memory/a/memory.stat", stat),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        let (_folder, v1) = groups("5:cpu,cpuacct:/\n4:memory:/a\n0::/\n", &files);
        assert_eq!(v1.memory(MACHINE), Memory { total: 4000, free: 3300 });
    }

    #[test]
    fn the_smallest_limit_on_the_path_counts_and_a_container_sees_its_own_as_the_root() {
        let files = [
            ("a/memory.max", "3000\n"),
            ("a/memory.current", "1000\n"),
            ("a/b/memory.max", "max\n"),
            ("a/b/memory.high", "5000\n"),
            ("a/cpu.max", "150000 100000\n"),
            ("a/b/cpu.max", "max 100000\n"),
        ];
        let (_folder, nested) = groups("0::/a/b\n", &files);
        assert_eq!(nested.memory(MACHINE), Memory { total: 3000, free: 2000 });
        assert_eq!(nested.cpus(), Some(2), "1.5 CPUs");
        let inside = [("memory.max", "3000\n"), ("memory.current", "0\n"), ("cpu.max", "10 100\n")];
        for listed in ["0::/docker/0123\n", "0::/../x\n", "0::/\n"] {
            let (_folder, container) = groups(listed, &inside);
            assert_eq!(container.memory(MACHINE), Memory { total: 3000, free: 3000 }, "{listed}");
            assert_eq!(container.cpus(), Some(1), "{listed}");
        }
        let (_folder, none) = groups("", &inside);
        assert_eq!((none.memory(MACHINE), none.cpus()), (MACHINE, None));
    }

    #[test]
    fn quotas_of_version_1() {
        for (quota, cpus) in [("400000\n", Some(4)), ("-1\n", None), ("240000", Some(2))] {
            let files =
                [("cpu/a/cpu.cfs_quota_us", quota), ("cpu/a/cpu.cfs_period_us", "\n100000\n")];
            let (_folder, groups) = groups("1:cpu,cpuacct:/a\n", &files);
            assert_eq!(groups.cpus(), cpus, "{quota}");
        }
    }
}
