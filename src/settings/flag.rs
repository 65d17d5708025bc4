//! The flag of a setting, as a row of the table states it.

/// A heading in the help of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading(pub &'static str);

/// A flag that sets a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// With its dashes.
    pub name: &'static str,
    /// What stands for the value in the help; empty for a switch.
    pub value: &'static str,
    /// Where the help lists it.
    pub heading: Heading,
    /// The environment variable that does the same; empty if there is none.
    pub env: &'static str,
    /// The value if the flag is given without one; empty if a value has to follow.
    pub alone: &'static str,
    /// Whether it can be given more than once.
    pub repeats: bool,
    /// What giving the flag does, for a switch: the setting's own words may say the opposite.
    pub does: &'static str,
}

impl Heading {
    /// What only a command with a screen has.
    pub const SCREEN: Self = Self("Screen");

    /// A flag that a value follows.
    pub(super) const fn flag(self, name: &'static str, value: &'static str) -> Flag {
        Flag { name, value, heading: self, env: "", alone: "", repeats: false, does: "" }
    }

    /// A flag that sets the opposite of the default.
    pub(super) const fn switch(self, name: &'static str, does: &'static str) -> Flag {
        Flag { does, ..self.flag(name, "") }
    }
}

impl Flag {
    pub(super) const fn env(self, env: &'static str) -> Self {
        Self { env, ..self }
    }

    pub(super) const fn alone(self, alone: &'static str) -> Self {
        Self { alone, ..self }
    }

    pub(super) const fn repeated(self) -> Self {
        Self { repeats: true, ..self }
    }

    /// Whether no value follows it.
    pub fn is_switch(&self) -> bool {
        self.value.is_empty()
    }
}
