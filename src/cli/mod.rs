//! The commands: one file each. Owns flags, exit codes and what is printed without a screen.
//! Must never know tensors.

/// Runs the program; the returned code is the process's exit code.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
