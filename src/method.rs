#![doc = include_str!("method.md")]
