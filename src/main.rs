//! The program: passes its arguments to [`dovetail::cli`] and returns the exit code.

fn main() -> std::process::ExitCode {
    dovetail::cli::main()
}
