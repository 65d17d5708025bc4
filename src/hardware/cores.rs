//! Which cores are the fast ones, if the system says. A pass of the target waits for its slowest
//! thread, so one thread on an efficiency core slows down the whole pass. Linux provides this in
//! files, macOS through a command. It must not depend on what is computed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A core counts as fast from this fraction of the fastest core's capacity: big cores differ among
/// themselves (about 1024 and 800), small ones have half or less.
const FAST: f64 = 0.7;

/// The fast cores of a machine that also has slow ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerformanceCores {
    /// How many there are.
    pub cores: usize,
    /// The system's numbers of their hardware threads, of which there may be more; empty if it has
    /// no numbers (macOS).
    pub threads: Vec<usize>,
}

impl PerformanceCores {
    /// The fast cores of this machine that this process may use; `None` if all its cores are alike
    /// or nothing is known.
    pub(super) fn find() -> Option<Self> {
        if cfg!(target_os = "macos") {
            return Self::told(|name| {
                let output = std::process::Command::new("sysctl").args(["-n", name]).output();
                String::from_utf8(output.ok()?.stdout).ok()
            });
        }
        Self::listed(Path::new("/sys/devices"), &allowed()?)
    }

    /// According to macOS's levels of cores; level 0 is the fastest.
    fn told(ask: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| ask(name)?.trim().parse::<usize>().ok();
        let fast = number("hw.perflevel0.physicalcpu")?;
        let slow = number("hw.perflevel1.physicalcpu")?;
        (fast > 0 && slow > 0).then_some(Self { cores: fast, threads: Vec::new() })
    }

    /// According to Linux's files under `devices` (`/sys/devices`), among the hardware threads in
    /// `allowed`: Intel's list of its fast cores, or the capacities of ARM's.
    fn listed(devices: &Path, allowed: &BTreeSet<usize>) -> Option<Self> {
        let read = |path: String| fs::read_to_string(devices.join(path)).ok();
        let fast = match read("cpu_core/cpus".to_owned()) {
            Some(list) => numbers(&list)?,
            None => {
                let capacity = |cpu: &usize| {
                    let text = read(format!("system/cpu/cpu{cpu}/cpu_capacity"))?;
                    Some((*cpu, text.trim().parse::<f64>().ok()?))
                };
                let capacities: Vec<(usize, f64)> =
                    allowed.iter().map(capacity).collect::<Option<_>>()?;
                let most = capacities.iter().map(|&(_, capacity)| capacity).fold(0.0, f64::max);
                let fast = capacities.iter().filter(|&&(_, capacity)| capacity >= FAST * most);
                fast.map(|&(cpu, _)| cpu).collect()
            }
        };
        let threads: Vec<usize> = allowed.intersection(&fast).copied().collect();
        if threads.is_empty() || threads.len() == allowed.len() {
            return None;
        }
        // Hardware threads of the same core list the same siblings.
        let core = |cpu: &usize| {
            read(format!("system/cpu/cpu{cpu}/topology/thread_siblings_list"))
                .unwrap_or_else(|| cpu.to_string())
        };
        let cores: BTreeSet<String> = threads.iter().map(core).collect();
        Some(Self { cores: cores.len(), threads })
    }

    /// Restricts the calling thread, and those that it starts from now on, to these cores, if there
    /// is room for `threads` of them. If the system refuses, only speed is lost.
    pub fn keep_here(&self, threads: usize) {
        #[cfg(target_os = "linux")]
        if threads <= self.threads.len() {
            let mut set = rustix::thread::CpuSet::new();
            let most = rustix::thread::CpuSet::MAX_CPU;
            for &cpu in self.threads.iter().filter(|&&cpu| cpu < most) {
                set.set(cpu);
            }
            if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
                tracing::debug!("cannot select the fast cores: {error}");
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = threads;
    }
}

/// How many hardware threads this process may run on, whatever time a control group allows there;
/// `None` if the system does not say. It asks the C library, whose answer a container's runtime may
/// replace.
pub(super) fn allowed_threads() -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        use nix::sched::{CpuSet, sched_getaffinity};
        let set = sched_getaffinity(nix::unistd::Pid::from_raw(0)).ok()?;
        let count = (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).count();
        (count > 0).then_some(count)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// Which threads share a core: for each allowed hardware thread the list that all of its core have
/// alike; `None` if any is unknown.
pub(super) fn siblings() -> Option<Vec<String>> {
    let list = |cpu| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        fs::read_to_string(path).ok()
    };
    allowed()?.into_iter().map(list).collect()
}

/// How many physical cores `allowed` of the `installed` hardware threads belong to: those that
/// `siblings` tell apart, or else a share of all `cores`, rounded up.
pub(super) fn physical(
    allowed: usize,
    installed: usize,
    cores: usize,
    siblings: Option<&[String]>,
) -> usize {
    match siblings {
        Some(known) if known.len() == allowed => known.iter().collect::<BTreeSet<_>>().len(),
        _ => (cores * allowed).div_ceil(installed.max(1)).max(1),
    }
}

/// The hardware threads that this thread may run on.
#[cfg(target_os = "linux")]
fn allowed() -> Option<BTreeSet<usize>> {
    let set = rustix::thread::sched_getaffinity(None).ok()?;
    let most = rustix::thread::CpuSet::MAX_CPU;
    Some((0..most).filter(|&cpu| set.is_set(cpu)).collect())
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Option<BTreeSet<usize>> {
    None
}

/// The numbers in a list such as `0-3,8`; `None` if it is not such a list.
fn numbers(list: &str) -> Option<BTreeSet<usize>> {
    let mut all = BTreeSet::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.parse().ok()?;
        let last: usize = last.parse().ok()?;
        // A wrong list must not fill the memory.
        if last > 1 << 16 {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files.
    fn devices(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn all(threads: usize) -> BTreeSet<usize> {
        (0..threads).collect()
    }

    #[test]
    fn intel_lists_its_fast_cores_and_siblings_are_one() {
        // Two fast cores of two threads each, and four slow cores.
        let topology = |cpu: usize| format!("system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let paths: Vec<String> = (0..4).map(topology).collect();
        let mut files = vec![("cpu_core/cpus", "0-3\n"), ("cpu_atom/cpus", "4-7\n")];
        files.extend(paths.iter().zip(["0-1", "0-1", "2-3", "2-3"]).map(|(path, s)| (&**path, s)));
        let folder = devices(&files);
        let found = PerformanceCores::listed(folder.path(), &all(8));
        assert_eq!(found, Some(PerformanceCores { cores: 2, threads: vec![0, 1, 2, 3] }));
        // If the process is already restricted to some of them.
        let found = PerformanceCores::listed(folder.path(), &[2, 3, 6].into());
        assert_eq!(found, Some(PerformanceCores { cores: 1, threads: vec![2, 3] }));
        assert_eq!(PerformanceCores::listed(folder.path(), &[0, 1].into()), None);
        assert_eq!(PerformanceCores::listed(folder.path(), &[5, 6].into()), None);
    }

    #[test]
    fn arm_tells_capacities() {
        let capacity = |cpu: usize| format!("system/cpu/cpu{cpu}/cpu_capacity");
        let paths: Vec<String> = (0..8).map(capacity).collect();
        let of = |capacities: [&'static str; 8]| {
            let files: Vec<(&str, &str)> =
                paths.iter().map(|path| &**path).zip(capacities).collect();
            PerformanceCores::listed(devices(&files).path(), &all(8))
        };
        let mixed = of(["250", "250", "250", "250", "780", "780", "780", "1024\n"]);
        assert_eq!(mixed, Some(PerformanceCores { cores: 4, threads: vec![4, 5, 6, 7] }));
        assert_eq!(of(["1024"; 8]), None);
        assert_eq!(of(["much"; 8]), None);
        assert_eq!(PerformanceCores::listed(devices(&[]).path(), &all(4)), None);
    }

    #[test]
    fn macos_tells_levels() {
        let told = |fast: Option<&'static str>, slow: Option<&'static str>| {
            PerformanceCores::told(move |name| {
                let answer = if name.contains("level0") { fast } else { slow };
                answer.map(str::to_owned)
            })
        };
        let found = told(Some("8\n"), Some("4\n"));
        assert_eq!(found, Some(PerformanceCores { cores: 8, threads: Vec::new() }));
        assert_eq!(told(Some("4"), None), None);
        assert_eq!(told(Some("4"), Some("")), None);
    }

    #[test]
    fn lists_of_numbers() {
        assert_eq!(numbers("0-2,5\n"), Some([0, 1, 2, 5].into()));
        assert_eq!(numbers("\n"), Some(BTreeSet::new()));
        for wrong in ["a", "1-", "0-4000000000"] {
            assert_eq!(numbers(wrong), None, "{wrong}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_is_kept_to_them_and_so_are_those_it_starts() {
        let all = allowed().unwrap();
        let one = *all.first().unwrap();
        let fast = PerformanceCores { cores: 1, threads: vec![one] };
        let kept = |threads: usize| {
            let fast = fast.clone();
            let thread = std::thread::spawn(move || {
                fast.keep_here(threads);
                std::thread::spawn(|| allowed().unwrap()).join().unwrap()
            });
            thread.join().unwrap()
        };
        assert_eq!(kept(1), [one].into());
        // If there are more threads than fit, they use all cores.
        assert_eq!(kept(2), all);
    }
}
